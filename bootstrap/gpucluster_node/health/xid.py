"""Xid errors, which NVIDIA's driver writes to the kernel log. Some of them mean that a GPU needs at least a reset.

The list has the numbers of NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) whose
immediate action is RESET_GPU, RESTART_VM, RESTART_BM or CHECK_MECHANICALS (54), or whose workflow ends with a reset
(48, 74). The node is replaced instead, because a new instance takes no longer than a reboot.

Two numbers with RESET_GPU are left to Xid 154, which the driver logs for them if a reset is due (from R565: the
catalog's column "Xid 154 linkage"). 155 also reports links that were taken down on purpose, and 156 a part of the GPU
that a spare one replaces at the next reset (RESOURCE_RETIREMENT_EVENT in NVIDIA's open driver).

All other numbers leave the node in service: the program's own errors (13, 31, 43, 45, 137), contained memory errors
(94), memory that could not be retired (157: the catalog says to ignore it), and events that only announce something
(63, 92).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Reach = Literal["node", "gpu", "none"]
"""The jobs that a fault ends: all jobs of the node, those that use the GPU, or none, because the GPU works until it is
reset or replaced."""

BROKEN = {
    46: "the GPU stopped processing",
    48: "an uncorrectable memory error",
    54: "the GPU's auxiliary power is not connected",
    62: "an internal micro-controller halted",
    64: "a memory row could not be remapped",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    95: "an uncontained memory error",
    109: "a context switch timed out",
    110: "a security fault",
    119: "the GPU's system processor does not answer",
    120: "an error of the GPU's system processor",
    136: "an NVLink could not be trained",
    140: "an unrecovered memory error",
    143: "the GPU could not be initialized",
    151: "a key rotation error",
    158: "a fatal timeout",
}
NVLINK5 = frozenset(range(144, 151))
"""Blackwell's NVLink errors. Their lines say Fatal or Nonfatal (NVIDIA/TensorRT-LLM#4816)."""
NO_POWER = 54
"""The GPU works on, with lower clocks: the catalog's name is SILENT_RUNNING_PWR_REDUCED_CLOCKING."""
FALLEN = 79
"""The catalog's action is RESTART_BM: the whole machine is restarted."""
RECOVERY = 154
"""The driver's own recommendation, which follows other errors: `GPU recovery action changed from 0x0 (None) to 0x2
(Node Reboot Required)`. Drain P2P leaves the GPU usable, and so does Drain and Reset while jobs still run."""
_LINE = re.compile(
    r"(?:kernel: )?(?:\[[ \d.]+\] ?)?(?:\[[ CT\d]+\] )?"
    r"NVRM: Xid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): (?P<number>\d+), ?(?P<text>.*)"
)
"""At the beginning of a message, before which dmesg writes the time: other messages quote what a user has written."""
_TO = re.compile(r" to 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")
_USABLE = ("None", "Drain P2P")
_AFTER_THE_JOBS = "Drain and Reset"
_WHOLE_NODE = "Reboot"


@dataclass(frozen=True)
class Fault:
    gpu: str
    """Its PCI address, without the function: 0000:c1:00."""
    description: str
    reach: Reach


def broken(kernel_log: str) -> Iterator[str]:
    """Describes the faults, once for each GPU and number."""
    yield from dict.fromkeys(fault.description for fault in faults(kernel_log))


def faults(kernel_log: str) -> Iterator[Fault]:
    for match in filter(None, map(_LINE.match, kernel_log.splitlines())):
        number, text = int(match["number"]), match["text"]
        if why := _why_broken(number, text):
            yield Fault(match["gpu"], f"Xid {number} of GPU {match['gpu']}: {why}", _reach(number, text))


def _why_broken(number: int, text: str) -> str:
    """Empty if the node may stay in service."""
    if number in NVLINK5:
        return "a fatal NVLink error" if " Fatal " in f" {text} " else ""
    if number == RECOVERY:
        action = _action(text)
        return f"the driver asks for: {action}" if action and action not in _USABLE else ""
    return BROKEN.get(number, "")


def _reach(number: int, text: str) -> Reach:
    action = _action(text) if number == RECOVERY else ""
    if number == FALLEN or _WHOLE_NODE in action:
        return "node"
    return "none" if number == NO_POWER or action == _AFTER_THE_JOBS else "gpu"


def _action(text: str) -> str:
    to = _TO.search(text)
    return to["action"] if to else ""
