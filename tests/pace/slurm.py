"""Slurm's controller as the node programs see it: it keeps the states of CLOUD nodes, and power saving calls programs.

States and their order are those of recorded listings (aws/aws-parallelcluster-node's tests: ALLOCATED+CLOUD+
NOT_RESPONDING+POWERING_UP, DOWN+CLOUD+NOT_RESPONDING+POWERING_UP, IDLE+CLOUD+POWERED_DOWN); when they change is that of
Slurm 23.11's src/slurmctld: power_save.c (_do_power_work, _node_state_suspendable, with idle_on_node_suspend) and
node_mgr.c (update_node, set_node_reason, validate_node_specs, waiting_for_node_boot, waiting_for_node_power_down).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

TICK_S = 5.0
SCONTROL_S = 0.05
Launch = Callable[[list[str], list[dict[str, object]]], None]  # nodes, and jobs as SLURM_RESUME_FILE has them


@dataclass
class Node:
    name: str
    partition: str
    base: str = "IDLE"
    flags: set[str] = field(default_factory=lambda: {"CLOUD", "POWERED_DOWN"})
    reason: str = ""
    reason_time: datetime | None = None
    address: str = ""
    job: Job | None = None
    since: float = 0.0  # of the flag POWERING_UP or POWERING_DOWN
    idle_since: float = 0.0
    silent_since: float | None = None

    @property
    def state(self) -> str:
        return "+".join([self.base, *sorted(self.flags)])

    def line(self) -> str:
        why = f" Reason={self.reason} [slurm@{self.reason_time:%Y-%m-%dT%H:%M:%S}]" if self.reason_time else ""
        return (
            f"NodeName={self.name} CoresPerSocket=1  CPUAlloc=0 CPUEfctv=48 CPUTot=48 CPULoad=N/A Gres=gpu:a10g:4 "
            f"NodeAddr={self.address or self.name} NodeHostName={self.name}  RealMemory=186777 AllocMem=0 FreeMem=N/A "
            f"Sockets=48 Boards=1 State={self.state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
            f"Partitions={self.partition}  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown "
            f"ResumeAfterTime=None CfgTRES=cpu=48 AllocTRES= CurrentWatts=0 AveWatts=0{why}"
        )


@dataclass
class Job:
    job_id: int
    size: int
    partition: str
    runs_s: float
    nodes: list[Node] = field(default_factory=list)
    began: float | None = None  # the first time that it ran
    ends: float | None = None
    ended: bool = False
    requeued: int = 0


@dataclass(frozen=True)
class Down:
    """A node was set DOWN."""

    at: float
    node: str
    reason: str
    state: str  # before


class Controller:
    """Times are of the clock; `wall` is the same as the programs' datetime.now()."""

    def __init__(
        self,
        partitions: dict[str, int],
        now: Callable[[], float],
        wall: Callable[[], datetime],
        resume_timeout_s: float,
        suspend_timeout_s: float,
        slurmd_timeout_s: float,
        suspend_time_s: float = 600.0,
        always_on: Collection[str] = (),
    ) -> None:
        self._now, self._wall = now, wall
        self._resume_timeout_s, self._suspend_timeout_s = resume_timeout_s, suspend_timeout_s
        self._slurmd_timeout_s, self._suspend_time_s = slurmd_timeout_s, suspend_time_s
        self._always_on = always_on
        names = [(f"{name}-{n}", name) for name, size in partitions.items() for n in range(1, size + 1)]
        self.nodes = {name: Node(name, partition) for name, partition in names}
        self.jobs: list[Job] = []
        self.downs: list[Down] = []
        self.timeouts: list[str] = []  # nodes that ResumeTimeout gave up

    def submit(self, count: int, size: int = 1, partition: str = "train", runs_s: float = 60.0) -> list[Job]:
        made = [Job(len(self.jobs) + n + 1, size, partition, runs_s) for n in range(count)]
        self.jobs += made
        return made

    # --- what happens by itself ---

    def tick(self, resume: Launch, suspend: Callable[[list[str]], None]) -> None:
        """One pass of scheduler and power saving together."""
        self._end_jobs()
        woken = self._schedule() + [node for node in self.nodes.values() if self._wakes(node)]
        self._time_out()
        asleep = self._fall_asleep()
        if woken:
            jobs = [self._wanted(job, woken) for job in self.jobs if any(node in woken for node in job.nodes)]
            resume([node.name for node in woken], jobs)
        if asleep:
            suspend([node.name for node in asleep])

    def _end_jobs(self) -> None:
        for job in self.jobs:
            if job.nodes and job.ends is None and all(self._is_up(node) for node in job.nodes):
                job.ends = self._now() + job.runs_s
                job.began = self._now() if job.began is None else job.began
            if job.ends is not None and job.ends <= self._now():
                job.ended, job.ends = True, None
                self._leave(job)

    def _is_up(self, node: Node) -> bool:
        return node.base == "ALLOCATED" and not node.flags & {"POWERING_UP", "NOT_RESPONDING"}

    def _leave(self, job: Job) -> None:
        for node in job.nodes:
            node.job = None
            node.idle_since = self._now()
            if node.base == "ALLOCATED":
                node.base = "IDLE"
        job.nodes = []

    def _schedule(self) -> list[Node]:
        """Gives waiting jobs their nodes; returns those that have to be powered up."""
        woken: list[Node] = []
        for job in self.jobs:
            if job.ended or job.nodes:
                continue
            free = [node for node in self.nodes.values() if node.partition == job.partition and self._is_free(node)]
            free.sort(key=lambda node: "POWERED_DOWN" in node.flags)
            if len(free) >= job.size:
                job.nodes = free[: job.size]
                woken += [node for node in job.nodes if self._allocate(node, job)]
        return woken

    def _is_free(self, node: Node) -> bool:
        return node.base == "IDLE" and node.flags <= {"CLOUD", "POWERED_DOWN", "POWER_UP"}

    def _wakes(self, node: Node) -> bool:
        """After scontrol's power_up."""
        if not node.flags >= {"POWERED_DOWN", "POWER_UP"}:
            return False
        node.flags = {"CLOUD", "NOT_RESPONDING", "POWERING_UP"} | _drain(node)
        node.since = self._now()
        return True

    def _allocate(self, node: Node, job: Job) -> bool:
        node.base, node.job = "ALLOCATED", job
        if "POWERED_DOWN" not in node.flags:
            return False
        node.flags = {"CLOUD", "NOT_RESPONDING", "POWERING_UP"}
        node.since = self._now()
        return True

    def _wanted(self, job: Job, woken: list[Node]) -> dict[str, object]:
        names = ",".join(node.name for node in job.nodes if node in woken)
        return {"job_id": job.job_id, "nodes_resume": names, "partition": job.partition}

    def _time_out(self) -> None:
        for node in self.nodes.values():
            waited = self._now() - node.since
            if "POWERING_UP" in node.flags and waited > self._resume_timeout_s:
                self.timeouts.append(node.name)
                self._fails(node, "ResumeTimeout reached")
                node.flags = {"CLOUD", "POWERED_DOWN"} | _drain(node)
            if "POWERING_DOWN" in node.flags and waited > self._suspend_timeout_s:
                self._powered_down(node)

    def _powered_down(self, node: Node) -> None:
        """Not after ResumeTimeout: then Slurm keeps the address."""
        node.flags, node.address = {"CLOUD", "POWERED_DOWN"} | _drain(node), ""

    def _fall_asleep(self) -> list[Node]:
        """It ends a DRAIN too (idle_on_node_suspend)."""
        asleep = [node for node in self.nodes.values() if self._may_sleep(node)]
        for node in asleep:
            node.base, node.flags, node.since = "IDLE", {"CLOUD", "POWERING_DOWN"}, self._now()
        return asleep

    def _may_sleep(self, node: Node) -> bool:
        if node.base not in ("IDLE", "DOWN") or node.flags & {"POWERING_UP", "POWERING_DOWN"}:
            return False
        is_on = "POWERED_DOWN" not in node.flags and node.name not in self._always_on
        return "POWER_DOWN" in node.flags or (is_on and self._now() - node.idle_since > self._suspend_time_s)

    def registers(self, name: str, booted: float | None = None) -> None:
        """Its slurmd answers. ReturnToService=2: a node that was DOWN is used again. booted: when the machine did."""
        node, booted = self.nodes[name], self._now() if booted is None else booted
        if "POWERING_UP" in node.flags and booted < node.since:
            return
        if "POWERING_DOWN" in node.flags and booted < node.since + self._suspend_timeout_s:
            return
        if node.flags & {"POWERING_UP", "POWERED_DOWN"}:
            node.idle_since = self._now()
        node.flags -= {"NOT_RESPONDING", "POWERING_UP", "POWERED_DOWN", "POWERING_DOWN"}
        node.silent_since = None
        if node.base == "DOWN":
            node.base, node.reason, node.reason_time, node.idle_since = "IDLE", "", None, self._now()

    def is_silent(self, name: str) -> None:
        """Its slurmd does not answer: after SlurmdTimeout the node is DOWN."""
        node = self.nodes[name]
        if node.base == "DOWN" or node.flags & {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"}:
            node.silent_since = None
        elif node.silent_since is None:
            node.silent_since = self._now()
        elif self._now() - node.silent_since > self._slurmd_timeout_s:
            self._fails(node, "Not responding")
            node.flags.add("NOT_RESPONDING")

    def _fails(self, node: Node, why: str) -> None:
        """Slurm appends its own reason to the one that the node has (set_node_reason)."""
        known = not node.reason or f" : {why}" in node.reason
        self._down(node, (node.reason or why) if known else f"{node.reason} : {why}")

    def _down(self, node: Node, reason: str) -> None:
        self.downs.append(Down(self._now(), node.name, reason, node.state))
        node.base, node.reason, node.reason_time = "DOWN", reason, self._wall()
        self._requeue(node)

    def _requeue(self, node: Node) -> None:
        if job := node.job:
            job.requeued += 1
            job.ends = None
            self._leave(job)

    # --- scontrol ---

    def run(self, argv: Sequence[str]) -> str:
        if list(argv[:3]) == ["scontrol", "show", "nodes"] and argv[-1] == "--oneliner" and len(argv) < 6:
            wanted = expand(argv[3]) if len(argv) == 5 else list(self.nodes)
            return "".join(f"{self.nodes[name].line()}\n" for name in wanted)
        if argv[0] == "squeue":
            return ""  # a requeued job has no begin time here
        if argv[:2] != ["scontrol", "update"]:
            raise NotImplementedError(f"the played controller does not know {argv}")
        values = dict(word.split("=", 1) for word in argv[2:])
        nodes = [self.nodes[name] for name in expand(values.pop("nodename"))]
        addresses = values.pop("nodeaddr", "").split(",")
        for node, address in zip(nodes, addresses, strict=False):
            node.address = address or node.address
        for node in nodes:
            self._update(node, **values)
        return ""

    def _update(self, node: Node, state: str = "", reason: str = "") -> None:
        if state == "down":
            self._down(node, reason)
        elif state in ("power_down_force", "power_down_asap"):
            self._power_down(node, by_force=state == "power_down_force")
        elif state == "power_up":
            if "POWERED_DOWN" in node.flags:
                node.flags.add("POWER_UP")
        elif state == "resume":
            self._resume(node)
        elif state == "drain":
            self._drains(node, reason)
        elif state == "undrain":
            node.flags.discard("DRAIN")
        elif state:
            raise NotImplementedError(f"the played controller does not know state={state}")

    def _power_down(self, node: Node, *, by_force: bool) -> None:
        if "POWERING_DOWN" in node.flags:
            return
        if by_force:
            self._requeue(node)
        else:
            node.flags.add("DRAIN")
        if by_force or node.base == "DOWN":
            node.flags -= {"POWERING_UP", "POWER_UP"}
        node.flags.add("POWER_DOWN")

    def _drains(self, node: Node, reason: str) -> None:
        if node.base == "ALLOCATED" and "POWERING_UP" in node.flags:
            self._requeue(node)
        node.flags.add("DRAIN")
        node.reason, node.reason_time = reason, self._wall()

    def _resume(self, node: Node) -> None:
        if "POWERING_DOWN" in node.flags:
            self._powered_down(node)
        node.flags.discard("DRAIN")
        if node.base == "DOWN":
            node.base, node.reason, node.reason_time = "IDLE", "", None


def _drain(node: Node) -> set[str]:
    return node.flags & {"DRAIN"}


def expand(hostlist: str) -> list[str]:
    names: list[str] = []
    for prefix, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]+)\])?(?:,|$)", hostlist):
        if not ranges:
            names.append(prefix)
        for each in ranges.split(",") if ranges else ():
            first, _, last = each.partition("-")
            names += [f"{prefix}{n}" for n in range(int(first), int(last or first) + 1)]
    return names
