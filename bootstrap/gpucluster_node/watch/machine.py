"""What this machine's kernel counts: processors, memory, EFA's interfaces, and the control groups of Slurm's jobs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The first columns of /proc/stat, in ticks: proc_stat(5)."""
TICKS_PER_S = 100
"""USER_HZ, which is the same on every machine with Linux's x86_64."""
_EFA_COUNTERS = (
    "tx_bytes",
    "rx_bytes",
    "rdma_read_bytes",
    "rdma_write_bytes",
    "rx_drops",
    "retrans_pkts",
    "retrans_timeout_events",
    "impaired_remote_conn_events",
)
"""Names in Linux's drivers/infiniband/hw/efa/efa_verbs.c. Older drivers lack some."""


@dataclass(frozen=True)
class Machine:
    cpu_s: dict[str, float] = field(default_factory=dict)
    """Mode -> seconds of all processors since the boot."""
    memory: int = 0
    memory_used: int = 0
    """Bytes, without those that the kernel can give back at once."""
    efa: dict[tuple[str, str], int] = field(default_factory=dict)
    """(interface, counter) -> value, of all its ports."""

    @property
    def efa_bytes(self) -> int:
        return sum(value for (_, counter), value in self.efa.items() if counter in ("tx_bytes", "rx_bytes"))


@dataclass(frozen=True)
class JobGroup:
    """The control group of a job."""

    cpu_s: float
    memory: int


def read(root: Path = Path("/")) -> Machine:
    memory = _memory((root / "proc/meminfo").read_text())
    return Machine(
        cpu_s(_text(root / "proc/stat")),
        memory.get("MemTotal", 0),
        memory.get("MemTotal", 0) - memory.get("MemAvailable", 0),
        efa(root),
    )


def cpu_s(stat: str) -> dict[str, float]:
    words = stat.partition("\n")[0].split()[1:]
    return {mode: int(word) / TICKS_PER_S for mode, word in zip(_MODES, words, strict=False)}


def busy_percent(before: dict[str, float], now: dict[str, float]) -> float:
    """The share of all processors. A processor that waits for a disk is idle. 0 if no time has passed."""
    passed = sum(now.values()) - sum(before.values())
    idle = sum(now.get(mode, 0) - before.get(mode, 0) for mode in ("idle", "iowait"))
    return min(100.0, max(0.0, 100 * (1 - idle / passed))) if passed > 0 else 0.0


def _memory(meminfo: str) -> dict[str, int]:
    lines = (line.split() for line in meminfo.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) > 1 and words[1].isdecimal()}


def efa(root: Path = Path("/")) -> dict[tuple[str, str], int]:
    """The interfaces whose driver is `efa`. node_exporter's collector of InfiniBand reads other counters, which EFA
    does not have."""
    found: dict[tuple[str, str], int] = {}
    minute = int(time.monotonic() // 60)
    for interface in _names(folder := f"{root}/sys/class/infiniband"):
        for key, file in _efa_files(f"{folder}/{interface}", minute):
            if (value := _value(file)) is not None:
                found[key] = found.get(key, 0) + value
    return found


@lru_cache(maxsize=128)
def _efa_files(folder: str, minute: int) -> tuple[tuple[tuple[str, str], str], ...]:
    """(interface, counter) and the file, looked for once in a minute: a P5 has 32 interfaces, and this takes ten times
    as long as reading them."""
    if os.path.basename(os.path.realpath(f"{folder}/device/driver")) != "efa":
        return ()
    name = os.path.basename(folder)
    counters = [f"{folder}/ports/{port}/hw_counters" for port in _names(f"{folder}/ports")]
    there = ((counter, f"{each}/{counter}") for each in counters for counter in _EFA_COUNTERS)
    return tuple(((name, counter), file) for counter, file in there if os.path.exists(file))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _value(file: str) -> int | None:
    """Without a text file's buffer and decoder, which take longer than the kernel."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(opened, 64))
        finally:
            os.close(opened)
    except (OSError, ValueError):
        return None


def job_group(job: str, root: Path = Path("/")) -> JobGroup | None:
    """None if Slurm makes no groups here, or names them otherwise: from 26.05 on by the job's SLUID."""
    folder = root / f"sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}"
    used = dict(line.split(" ", 1) for line in _text(folder / "cpu.stat").splitlines() if " " in line)
    memory = _text(folder / "memory.current").strip()
    if not memory.isdecimal() or not used.get("usage_usec", "").isdecimal():
        return None
    return JobGroup(int(used["usage_usec"]) / 1e6, int(memory))


def _text(path: Path) -> str:
    """Empty if there is none: a job may have ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
