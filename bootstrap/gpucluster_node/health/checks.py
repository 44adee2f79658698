"""The checks: the command of each, and the faults that its output proves. These functions run no command themselves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from gpucluster_node import imds
from gpucluster_node.health import xid
from gpucluster_node.health.facts import Facts

LIMIT_S = 60.0
"""Time limit of all checks together. Without persistence mode nvidia-smi takes more than ten seconds on eight GPUs."""
DCGMI_S = 840
"""DCGM's own limit, after which it stops its tests; its second level takes minutes. Its tests would continue if only
dcgmi's shell was killed."""
DCGMI_STOPS_S = 20
"""dcgmi may take more than a minute to stop tests that do not end (DcgmDiagManager.cpp: KillActiveNvvs)."""
STOP_S = DCGMI_STOPS_S + 150.0
"""How long DCGM may take to stop its tests: systemd kills a service that does not stop within 90 s."""
DIAGNOSTICS_S = DCGMI_S + STOP_S
NO_DATA = 61
"""fi_info's exit code if no interface suits: FI_ENODATA (libfabric's util/info.c: main). Any other code but 0 says
nothing about the interfaces: the loader, for example, exits with 127 if a library is missing."""
PLANNED = "EC2 plans"
SOON = timedelta(hours=24)
"""EC2 announces most events days or weeks before. A node is used until then."""
CLOCK_S = 30.0
"""A healthy clock is right to milliseconds. munge refuses credentials that are 300 s off: then Slurm can neither start
a job on the node nor drain it, so the node must be drained before."""
STORAGE = "storage: "
"""A fault that begins with this proves nothing about the node's hardware."""
LOCK = "/run/gpucluster.lock"
"""Boot steps and prologs hold this lock while they mount or unmount (one_at_a_time in bootstrap/lib/runner.sh)."""
_ROW = re.compile(r"\d+, ")
_REMAPPED = re.compile(r"^([0-9A-Fa-f:.]+), *(\w+)", re.MULTILINE)
_LINK = re.compile(r"^\s*Link (\d+): <inactive>", re.MULTILINE)
_NO_LINK = re.compile("all links are inactive", re.IGNORECASE)
_MESSAGE = re.compile(r"(Warning|Info|Error)(: .*)?")
"""The first cell of a message, which may continue in further rows."""
_SET_UP = (
    "Denylist",
    "NVML Library",
    "CUDA Main Library",
    "CUDA Toolkit Library",
    "Permissions and OS Blocks",
    "Persistence Mode",
    "Environment Variables",
    "Graphics Processes",
)
"""DCGM 3's tests of the node's software. A new instance with the same image would fail them too, and DCGM 3 prints Fail
where it only warns. DCGM 4 has one row for all of them, `software`, and prints Warn there (nvvs/src/Software.cpp)."""
_FAILED = re.compile(r"Fail( - .*)?")
_GPU_FAILED = re.compile(r"[A-Za-z_-]+\d+: Fail")
_GPUS_FAILED = re.compile(r"Fail - GPU")
_DOMAIN = re.compile(r"^ *domain: (.*)-(?:rdm|dgrm)$", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    code: int | None
    """None: the command did not end within the limit."""
    text: str = ""
    errors: str = ""
    tried: bool = True
    """False: the node had no memory or no process left to start the command."""

    @property
    def all(self) -> str:
        return f"{self.text}\n{self.errors}"

    @property
    def first_line(self) -> str:
        return next((line.strip() for line in self.all.splitlines() if line.strip()), "it printed nothing")


@dataclass(frozen=True)
class Check:
    name: str
    argv: tuple[str, ...]
    applies: Callable[[Facts], bool]
    judge: Callable[[Answer, Facts], Iterator[str]]
    """Yields the faults that the answer proves. An answer that it cannot read proves nothing."""
    again: tuple[str, ...] = ()
    """Another command, whose answer counts if the first one's shows faults, because they may be over soon."""


def gpus(answer: Answer, facts: Facts) -> Iterator[str]:
    """A lost GPU has no row, or [GPU is lost] in each column. One that needs a reset keeps its row and some values, and
    CUDA does not find it (tests/data has all three, with their sources). nvidia-smi is part of the driver, and the boot
    step nvidia_driver has used it: if it cannot be started now, the driver is damaged."""
    if not answer.tried:
        return
    if answer.code is None:
        yield f"nvidia-smi did not answer within {LIMIT_S:.0f} s"
        return
    rows = [line for line in answer.text.splitlines() if _ROW.match(line) and "lost" not in line]
    if answer.code and not rows and "No devices" not in answer.all:
        yield f"nvidia-smi failed: {answer.first_line}"
    elif len(rows) < facts.gpus:
        yield f"nvidia-smi lists {len(rows)} of {facts.gpus} GPUs"
    yield from (f"GPU {row.partition(',')[0]} requires a reset" for row in rows if "requires reset" in row)


def memory(answer: Answer, facts: Facts) -> Iterator[str]:
    """A count of uncorrectable errors proves nothing: the driver may have contained them, and the GPU is usable then.
    A GPU that could not replace a broken row of its memory must be returned (row-remapping failure flag, in
    docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt). Drivers print No or Yes, or 0 or 1; GPUs before Ampere have no such
    value."""
    for gpu, failed in _REMAPPED.findall(answer.text if answer.code == 0 else ""):
        if failed in ("Yes", "1"):
            yield f"GPU {gpu} could not replace a broken row of its memory"


def kernel_log(answer: Answer, facts: Facts) -> Iterator[str]:
    """journalctl exits with code 1 if no line matches."""
    return xid.broken(answer.text)


def nvlink(answer: Answer, facts: Facts) -> Iterator[str]:
    """nvidia-smi lists the links of each GPU below a line `GPU 0: …`. If none is active, it prints a sentence instead
    (tests/data has it, with its sources). Its exit code then is not known, so the text counts whatever the code is."""
    for block in re.split(r"^(?=GPU \d+:)", answer.all, flags=re.MULTILINE):
        gpu = block.partition(":")[0]
        if links := _LINK.findall(block):
            yield f"{gpu}: NVLink {', '.join(links)} is inactive"
        elif _NO_LINK.search(block):
            yield f"{gpu}: all NVLinks are inactive"


def efa(answer: Answer, facts: Facts) -> Iterator[str]:
    """libfabric lists an interface once for each fabric and endpoint type."""
    found = len(set(_DOMAIN.findall(answer.text)))
    if answer.code in (0, NO_DATA) and found < facts.efa_interfaces:
        yield f"fi_info lists {found} of {facts.efa_interfaces} EFA interfaces"


def mounts(answer: Answer, facts: Facts) -> Iterator[str]:
    """Reads the kernel's list, because access to a mount may hang while its server does not answer."""
    mounted = {words[4] for line in answer.text.splitlines() if len(words := line.split()) > 4}
    if answer.code == 0 and mounted:
        yield from (f"{STORAGE}nothing is mounted on {mount}" for mount in facts.mounts if mount not in mounted)


def dcgm(answer: Answer, facts: Facts) -> Iterator[str]:
    """dcgmi prints a table of tests and messages (DCGM's dcgmi/Diag.cpp). DCGM 4 prints `GPU0: Fail` also below a test
    that only warns: HelperDisplayEntityResults asks for no Warn. DCGM 3 continues a test with `Fail - GPU: 0`."""
    name, result = "", ""
    for first, second in _cells(answer.text):
        if _MESSAGE.fullmatch(first):
            continue
        name, result = (first, second) if first else (name, result)
        if name not in _SET_UP and _is_failed(first, second, result):
            yield f"dcgmi diag: {name}: {second}"


def _cells(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2:
            yield cells[0], cells[1]


def _is_failed(first: str, second: str, result: str) -> bool:
    """result: the second cell of the test's own row."""
    of_gpu = _GPU_FAILED.fullmatch(second) and _FAILED.fullmatch(result)
    return bool(_FAILED.fullmatch(second) if first else of_gpu or _GPUS_FAILED.match(second))


def processes(answer: Answer, facts: Facts) -> Iterator[str]:
    """nvidia-smi prints a process id on each line. A user may log in to a node and use its GPUs without a job."""
    if answer.code == 0:
        yield from (f"process {line.strip()} uses a GPU" for line in answer.text.splitlines() if line.strip().isdigit())


def events(answer: Answer, facts: Facts, now: datetime | None = None) -> Iterator[str]:
    """EC2's guide, monitoring-instances-status-check_sched: [{"NotBefore": "21 Jan 2019 09:00:43 GMT", "Code":
    "system-reboot", "Description": "scheduled reboot", "State": "active", …}]. Without an event there is no document,
    or it is an empty list. system-maintenance counts too: the instance loses its network for a while, or is rebooted,
    and the code does not show which (schedevents_actions_maintenance)."""
    if answer.code == 0:
        for event in json.loads(answer.text or "[]"):
            begins = parsedate_to_datetime(event["NotBefore"])
            if event.get("State", "active") == "active" and begins - (now or datetime.now(timezone.utc)) < SOON:
                yield f"{PLANNED} {event['Code']} at {event['NotBefore']}"


def clock(answer: Answer, facts: Facts) -> Iterator[str]:
    """clock.py prints the seconds. Without an answer of the time service it fails, which proves nothing."""
    if answer.code == 0 and abs(ahead_s := float(answer.text)) > CLOCK_S:
        yield f"its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} Amazon's time service"


_EVENTS = """
token=$(curl -sSf -m "$2" -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$0/api/token") &&
printf 'X-aws-ec2-metadata-token: %s\n' "$token" | curl -sSf -m "$2" -H @- "$0/$1"
"""
"""The same requests as `imds.ask`. Every job waits for this check, and curl starts in a tenth of Python's time. Users
may read a process's arguments, so the token is none of them."""
_MOUNTINFO = ("cat", "/proc/self/mountinfo")
_MOUNTINFO_LATER = f'umask 077; exec flock --timeout 30 "$0" {" ".join(_MOUNTINFO)}'
"""Only root may open a lock's file, which flock makes if it is missing (`locks`)."""


def _has_gpus(facts: Facts) -> bool:
    return facts.gpus > 0


QUICK: Sequence[Check] = (
    Check(
        "GPUs",
        ("nvidia-smi", "--query-gpu=index,temperature.gpu", "--format=csv,noheader,nounits"),
        _has_gpus,
        gpus,
    ),
    Check(
        "GPU memory",
        ("nvidia-smi", "--query-remapped-rows=gpu_bus_id,remapped_rows.failure", "--format=csv,noheader"),
        _has_gpus,
        memory,
    ),
    Check(
        "kernel log",
        ("journalctl", "--dmesg", "--boot", "--output=cat", "--no-pager", "--grep=^NVRM: Xid"),
        _has_gpus,
        kernel_log,
    ),
    Check("NVLink", ("nvidia-smi", "nvlink", "--status"), lambda facts: facts.nvlink, nvlink),
    Check("EFA", ("fi_info", "-p", "efa", "-t", "FI_EP_RDM"), lambda facts: facts.efa_interfaces > 0, efa),
    Check(
        "EC2's events",
        ("sh", "-c", _EVENTS, imds.URL, "meta-data/events/maintenance/scheduled", f"{imds.TIMEOUT_S}"),
        lambda facts: True,
        events,
    ),
    Check("clock", (sys.executable, "-m", "gpucluster_node.health.clock"), lambda facts: True, clock),
    Check(
        "mounts",
        _MOUNTINFO,
        lambda facts: bool(facts.mounts),
        mounts,
        again=("sh", "-c", _MOUNTINFO_LATER, LOCK),
    ),
)
"""The checks before each job. Where a mount is missing, a program that holds LOCK may be mounting it again. If the lock
is held for 30 s, flock prints nothing, which proves nothing. A mount that is there waits for no lock, because a node's
boot holds it until its last step has ended, and jobs may start before that."""
_DIAG = """
systemctl --quiet is-active nvidia-dcgm || { systemctl start nvidia-dcgm && trap 'systemctl stop nvidia-dcgm' EXIT; }
timeout --kill-after "$1" "$0" dcgmi diag -r 2 &
trap 'terminated=yes; kill "$!"' TERM
wait "$!"
code=$?
if [ -n "$terminated" ]; then wait "$!"; code=$?; fi
if [ "$code" -eq 137 ]; then systemctl try-restart nvidia-dcgm; fi
if [ "$code" -eq 137 ] || [ "$code" -eq 124 ]; then echo "dcgmi did not end within $0 s"; fi
"""
DIAGNOSTICS = Check("DCGM", ("sh", "-c", _DIAG, str(DCGMI_S), str(DCGMI_STOPS_S)), _has_gpus, dcgm)
"""DCGM uses the GPUs, so no job may run meanwhile. dcgmi needs its service, which images do not start. At SIGTERM dcgmi
asks its service to stop the tests (DCGM's dcgmi/Diag.cpp: ExecuteDiagOnServer). If dcgmi had to be killed (timeout's
exit code 137), the tests end with the service, whose child they are."""
END_TESTS = Check("DCGM's end", ("systemctl", "try-restart", "nvidia-dcgm"), _has_gpus, lambda answer, facts: iter(()))
"""For a shell of DIAGNOSTICS that had to be killed."""
PROCESSES = Check(
    "processes", ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"), _has_gpus, processes
)
"""DCGM fails on a GPU that a process uses."""


def diagnosed(answer: Answer) -> bool:
    """Whether dcgmi completed its tests; some may have failed."""
    return "Successfully ran diagnostic" in answer.text
