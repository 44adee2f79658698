"""What this machine's kernel counts: processors, memory, EFA's interfaces, and the control groups of Slurm's jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    for interface in (root / "sys/class/infiniband").glob("*"):
        if (interface / "device/driver").resolve().name != "efa":
            continue
        for counter in _EFA_COUNTERS:
            values = [_text(path).strip() for path in interface.glob(f"ports/*/hw_counters/{counter}")]
            if values:
                found[interface.name, counter] = sum(int(value) for value in values if value.isdecimal())
    return found


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
