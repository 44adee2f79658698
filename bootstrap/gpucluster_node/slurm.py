"""scontrol and squeue: argument lists, the parser of its node listing, and the calls."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from gpucluster_node import record_ends
from gpucluster_node.batches import batches

TIMEOUT_S = 30
NODES_PER_CALL = 100
_NODE = re.compile(r"NodeName=(?P<name>\S+)(?:.*? NodeAddr=(?P<address>\S+))?.*? State=(?P<state>\S+)")
_REASON = re.compile(r" Reason=(?P<reason>.*) \[(?P<user>[^@\]]*)@(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\]")
_EXTRA = re.compile(r".* Extra=(?P<value>\S+)")
"""The last one: a reason, which comes before it, may contain the same text. For `match`: `search` would try each
character of a line without Extra as the pattern's beginning, and take 0.6 s for 1,000 nodes."""
_HELD = re.compile("JobHeld|JobHoldMaxRequeue| held( |$)")
"""JobHeldUser, JobHeldAdmin. squeue shows Slurm's description instead if there is one: `launch failed requeued held`,
`job requeued in held state`, `launch failure limit exceeded requeued held` (job_mgr.c, squeue/print.c)."""
_RANGES = re.compile(r"(?P<prefix>[^,\[]+)(?:\[(?P<ranges>[^\]]+)\])?(?:,|$)")


@dataclass(frozen=True)
class Node:
    name: str
    states: frozenset[str]
    reason: str = ""
    reason_time: datetime | None = None
    """In the head node's own time zone, as Slurm writes it."""
    address: str = ""
    """What Slurm calls NodeAddr: the instance's IPv4 address, or the node's name if it is powered off."""
    extra: str = ""
    """Slurm's field Extra, if it is one word: power/topology.py."""

    def has(self, *states: str) -> bool:
        """Whether any of these is set."""
        return not self.states.isdisjoint(states)


def parse_nodes(text: str) -> list[Node]:
    """From `scontrol show nodes --oneliner`."""
    return [node for line in text.splitlines() if (node := _parse_node(line))]


def _parse_node(line: str) -> Node | None:
    found = _NODE.search(line)
    if not found:
        return None
    states = _states(found["state"])
    why, extra = _REASON.search(line), _EXTRA.match(line)
    node = Node(found["name"], states, address=found["address"] or "", extra=extra["value"] if extra else "")
    return replace(node, reason=why["reason"], reason_time=datetime.fromisoformat(why["time"])) if why else node


@lru_cache(maxsize=256)
def _states(text: str) -> frozenset[str]:
    """Many nodes have the same. A star means that the node does not respond. Slurm keeps POWER_UP if a node answers
    before its launch (node_mgr.c: validate_node_specs), and acts on it only if the node is off (power_save.c:
    _do_power_work)."""
    states = frozenset(text.replace("*", "+NOT_RESPONDING").split("+"))
    return states if states & {"POWERED_DOWN", "POWERING_UP"} else states - {"POWER_UP"}


def expand(hostlist: str) -> list[str]:
    """`train-[1-2,4],ps-1` -> train-1 train-2 train-4 ps-1."""
    return [name for match in _RANGES.finditer(hostlist) for name in _expand_one(match["prefix"], match["ranges"])]


def _expand_one(prefix: str, ranges: str | None) -> Iterator[str]:
    if ranges is None:
        yield prefix
        return
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}{number:0{len(first)}d}"


def update_argv(nodes: Sequence[str], **values: str) -> list[str]:
    return ["scontrol", "update", f"nodename={','.join(nodes)}", *(f"{key}={value}" for key, value in values.items())]


def nodes(names: Sequence[str] = ()) -> list[Node]:
    """All nodes if none are named."""
    asked = [",".join(names)] if names else []
    return parse_nodes(call(["scontrol", "show", "nodes", *asked, "--oneliner"]))


WAITING = frozenset(
    ["PENDING", "EXPEDITING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"]
)
RUNNING = frozenset(["CONFIGURING", "RUNNING", "RESIZING", "SIGNALING", "STOPPED", "SUSPENDED"])
"""The job has its nodes, though they may still be booting."""
ENDING = frozenset({"COMPLETING", "STAGE_OUT"})
"""Its programs have ended; its epilog runs, or its data is being moved."""
OVER = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
"""A job in an unknown state has not ended: it is a new state of Slurm."""


def jobs_argv(fields: str, *options: str) -> list[str]:
    """Includes ended jobs, because squeue's filter finds a job that is RUNNING and STOPPED only by the second name."""
    return ["squeue", "--noheader", "--states=all", f"--format={fields}", *options]


def parse_jobs(text: str) -> list[tuple[str, str]]:
    """Partition and state of each job that has not ended, from `squeue --format "%P %T"`."""
    found = [(words[0], words[1]) for line in text.splitlines() if len(words := line.split()) == 2]
    return [(partition, state) for partition, state in found if state not in OVER]


def jobs() -> list[tuple[str, str]]:
    """Pending and running jobs; each task of an array counts."""
    return parse_jobs(call(jobs_argv("%P %T", "--array")))


def unfinished(text: str) -> set[str]:
    """From `squeue --states=all --format "%A %T"`: the jobs that have not ended."""
    return {job for job, _ in parse_jobs(text)}


def unfinished_jobs() -> set[str]:
    return unfinished(call(jobs_argv("%A %T")))


def state(job_id: str) -> str:
    """Empty if Slurm no longer knows the job."""
    try:
        said = call(jobs_argv("%T", f"--jobs={job_id}"))
    except SlurmError:
        return ""
    return next(iter(said.split()), "")


def parts(job_id: str) -> list[str]:
    """The job, or all jobs of a heterogeneous one."""
    return call(jobs_argv("%A", f"--jobs={job_id}")).split() or [job_id]


@dataclass(frozen=True)
class Requeued:
    """A job that ran, or was given nodes, and waits for its begin time."""

    job_id: str
    """As Running's."""
    partitions: frozenset[str]
    submitted: datetime
    """Slurm counts a requeued job as submitted again."""
    begins: datetime


_REQUEUED = (
    "JobID:10|,ArrayJobID:10|,ArrayTaskID:8|,RestartCnt:4|,Reason:20|,SubmitTime:20|,StartTime:20|,Partition:400|"
)
"""Columns of so many characters, each with a separator after it."""


def parse_requeued(text: str) -> list[Requeued]:
    """From `squeue --Format` of _REQUEUED, of pending and running jobs."""
    lines = ([field.strip() for field in line.split("|")] for line in text.splitlines())
    return [
        Requeued(_name(*job), frozenset(partitions.split(",")), *map(datetime.fromisoformat, (submitted, begins)))
        for *job, restarts, reason, submitted, begins, partitions, _ in (line for line in lines if len(line) == 9)
        if reason == "BeginTime" and restarts != "0" and begins != "N/A"
    ]


def _name(job_id: str, array: str, task: str) -> str:
    """An element's own number may be the whole array's: scontrol would change all elements."""
    return f"{array}_{task}" if task.isdecimal() else job_id


def requeued() -> list[Requeued]:
    return parse_requeued(call(["squeue", "--noheader", f"--Format={_REQUEUED}"]))


@dataclass(frozen=True)
class Running:
    job_id: str
    """A heterogeneous job's first part has the script, and Slurm requeues no other part (job_mgr.c: _job_requeue). An
    array's element is `29_3`: its number alone may be the whole array's, and Slurm would requeue all elements, also
    those that have completed (job_mgr.c: job_requeue2)."""
    restarts: int
    script: str
    part: str = ""
    """In a heterogeneous job, the id of the part that runs here; of an array's element, its own number; else the
    job's."""
    nodes: frozenset[str] = frozenset()
    gpus: int | None = None
    """How many it had on each node, if it has ended: then Slurm no longer says which (job_mgr.c: _pack_job_gres)."""

    @property
    def run(self) -> str:
        return f"{self.job_id} run {self.restarts}"


_STARTED = RUNNING - {"CONFIGURING"}


def parse_running(text: str, states: Collection[str] = _STARTED) -> list[Running]:
    """From `squeue --Format` of RUNNING_COLUMNS. A record that does not fit is left out."""
    found = ([field.strip(" ") for field in record.split("|", 7)] for record in record_ends.split(text))
    return [_running(*each) for each in found if len(each) == 8 and each[4].isdecimal() and each[5] in states]


def _running(part: str, first: str, array: str, task: str, restarts: str, _: str, nodes: str, script: str) -> Running:
    job_id = _name(part if first == "N/A" else first, array, task)
    path = script.rstrip(" ").removesuffix("|").rstrip(" ")
    return Running(job_id, int(restarts), path, part, frozenset(expand(nodes)))


RUNNING_COLUMNS = (
    "JobID:12|,HetJobID:12|,ArrayJobID:12|,ArrayTaskID:12|,RestartCnt:4|,State:14|,NodeList:4000|,"
    f"Command:4000|{record_ends.END}"
)


def running(*options: str) -> list[Running]:
    return parse_running(call(["squeue", "--noheader", *options, f"--Format={RUNNING_COLUMNS}"]))


def running_on(node: str) -> list[Running]:
    return running(f"--nodelist={node}")


def jobs_on(node: str) -> list[str]:
    """Jobs that have the node: their programs run, they have not begun yet, or their epilog runs."""
    lines = map(str.split, call(jobs_argv("%i %T", f"--nodelist={node}")).splitlines())
    return [words[0] for words in lines if len(words) == 2 and words[1] in RUNNING | ENDING]


def owners_on(node: str) -> dict[str, int]:
    """Job number -> its user's uid, of jobs that have the node."""
    lines = map(str.split, call(jobs_argv("%A %U", f"--nodelist={node}")).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def parse_busy(text: str) -> set[str]:
    """From `squeue --format "%T|%N"`: nodes with a job that runs. One that is CONFIGURING has not begun its prolog."""
    lines = (line.strip().partition("|") for line in text.splitlines())
    return {name for state, _, nodes in lines if state in _STARTED for name in expand(nodes)}


def busy() -> set[str]:
    return parse_busy(call(["squeue", "--noheader", "--format=%T|%N"]))


def comment(job_id: str, text: str) -> None:
    call(["scontrol", "update", f"jobid={job_id}", f"admincomment={text}"])


def has_comment(job: Running) -> bool:
    """Whether its current run has one that begins with the number of the run. `scontrol show job` also has it, but
    after the job's name, in which a user could write another."""
    asked = ["squeue", "--noheader", f"--jobs={job.job_id}", "--Format=AdminComment:40"]
    return call(asked).startswith(f"run {job.restarts}: ")


def signal(job_id: str, name: str) -> None:
    """Sends it to the job's script alone, as Slurm does for --signal=B:NAME."""
    call(["scancel", "--batch", f"--signal={name}", job_id])


@dataclass(frozen=True)
class Queued:
    job_id: str
    """As Running's."""
    running: bool
    script: str
    """The script on the shared disk."""
    part: str = ""
    """Its SLURM_JOB_ID, as Running's; of an array's elements that have not started, the array's."""


def parse_queued(text: str) -> list[Queued]:
    """Pending and running jobs, from `squeue --format` of _QUEUED, without those that a user or Slurm holds. The
    elements of an array that have not started share a line."""
    found = (record.split("|", 5) for record in record_ends.split(text))
    return [
        Queued(_name(*each[:3]), each[3] in RUNNING, each[5], each[0])
        for each in found
        if len(each) == 6 and each[3] in WAITING | RUNNING and not _HELD.search(each[4])
    ]


_QUEUED = f"%A|%F|%K|%T|%r|%o{record_ends.END}"
_STARTS = re.compile(r"CONFIGURING .*|RUNNING 0:\d\d")


def starting() -> bool:
    """Whether a job has nodes and has not started, or has run for less than a minute: before 23.11.7 a slurmd that is
    reconfigured forgets jobs whose first step has not begun (Slurm's commit efc6fcfb0d)."""
    return any(_STARTS.fullmatch(line.strip()) for line in call(jobs_argv("%T %M")).splitlines())


def reconfigure() -> None:
    call(["scontrol", "reconfigure"])


def queued() -> list[Queued]:
    return parse_queued(call(jobs_argv(_QUEUED)))


def job(verb: str, job_id: str) -> None:
    """verb: hold, requeue, requeuehold or release."""
    call(["scontrol", verb, job_id])


def requeue(job_id: str) -> None:
    """Only a job that has not ended: Slurm would run a completed one again (scontrol's manual, requeue)."""
    call(["scontrol", "requeue", "incomplete", job_id])


def start_now(job_id: str) -> None:
    """Slurm makes a requeued job wait two minutes, until the credentials of its last run are void."""
    call(["scontrol", "update", f"jobid={job_id}", "starttime=now"])


NOWHERE = "127.0.0.1"
"""The address of a node whose instance is terminated. When Slurm sets a node DOWN, it sends it a request to end its
job and repeats that for up to half a minute (slurm_send_addr_recv_msgs in slurm_protocol_api.c). Meanwhile another
node, on which the same job runs again, may get the address. It would end the job's part there, and Slurm would take the
node for idle. Nothing on the head node listens on slurmd's port, so it refuses the request."""


def set_down(names: Sequence[str], reason: str) -> None:
    update(names, state="down", reason=reason)


def set_terminated(name: str, reason: str) -> None:
    """DOWN, and its instance is terminated. Slurm sets the address before the state (update_node in node_mgr.c)."""
    update([name], state="down", reason=reason, nodeaddr=NOWHERE)


def set_state(names: Sequence[str], state: str) -> None:
    update(names, state=state)


def set_addresses(addresses: Mapping[str, str]) -> None:
    """node -> IPv4 address."""
    for batch in batches(addresses.items(), NODES_PER_CALL):
        call(update_argv([name for name, _ in batch], nodeaddr=",".join(ip for _, ip in batch)))


def update(names: Sequence[str], **values: str) -> None:
    for batch in batches(names, NODES_PER_CALL):
        call(update_argv(batch, **values))


class SlurmError(Exception):
    """scontrol failed or did not answer in time."""


class UnansweredError(SlurmError):
    """slurmctld may still do what it was asked."""


UNANSWERED = ("timed out on send/recv", "Unable to contact slurm controller", "Zero Bytes were transmitted")
"""slurm_errno.c: no answer within MessageTimeout (SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT), no connection, or one that
broke (SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR and those after it), and a connection that slurmctld closed
(SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT)."""


def call(argv: Sequence[str]) -> str:
    argv, formats = record_ends.hidden(argv)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    environment = {**inherited, **formats, "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired:
        raise UnansweredError(f"`{' '.join(argv)}` did not answer within {TIMEOUT_S} s") from None
    text, error = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))  # paths are bytes
    if done.returncode:
        kind = UnansweredError if any(words in error for words in UNANSWERED) else SlurmError
        raise kind(f"`{' '.join(argv)}` exited with code {done.returncode}: {error.strip() or text.strip()}")
    return text
