"""Slurm's commands as argument lists, and parsers of their output. Runs nothing.

The formats are explicit: unlike the JSON output they are the same in Slurm 23.11 and 24.11, and need no slurmdbd.
The field that users write, a job's name, is the last of its record, and each record begins with a mark (`records`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gpucluster.head import records

Phase = Literal["waiting", "running", "done", "unknown"]

_JOB_FIELDS = "%i|%T|%P|%D|%N|%M|%l|%V|%S|%j|%r"
OWNED_FIELDS = _JOB_FIELDS.replace("%i|%T|", "%i|%T|%u|")
"""With the user, third: `queue.owned`."""
_NODE_FIELDS = "%N|%R|%T|%H|%E"

# All elements of an array are shown if one is: they are counted. An array has ended if all of them have.
_NEWEST = f"""
set -o pipefail
if [ "$4" = True ]; then
  {records.MAKE_MARK}
fi
unset SQUEUE_FORMAT2
export mark SQUEUE_FORMAT="$mark$5"
"${{@:6}}" | awk -F'|' -v left="$1" -v also="$2" -v ended="$3" '
  BEGIN {{ mark = ENVIRON["mark"] }}
"""
_NEWEST += """
  substr($0, 1, length(mark)) != mark { if (rows) line[rows] = line[rows] "\\n" $0; next }
  { line[++rows] = $0; $0 = substr($0, length(mark) + 1)
    number = $1; sub(/[_+].*/, "", number); number += 0
    job[rows] = number; seen[number] = 1
    if (!index(ended, " " $2 " ") || index(also, " " number " ")) shown[number] = 1
    if (number > newest) newest = number
    if (rows == 1 || number < oldest) oldest = number }
  END {
    for (number = newest; number >= oldest && left > 0; number--)
      if ((number in seen) && !(number in shown)) { shown[number] = 1; left-- }
    for (row = 1; row <= rows; row++) if (job[row] in shown) print line[row] }'
"""


@dataclass(frozen=True)
class JobState:
    phase: Phase
    meaning: str
    starts: bool = False
    """A pending job that already has nodes."""

    @property
    def has_nodes(self) -> bool:
        return self.phase == "running" or self.starts


JOB_STATES = {
    "PENDING": JobState("waiting", "is pending"),
    "CONFIGURING": JobState("waiting", "is starting", starts=True),
    "EXPEDITING": JobState("waiting", "is requeued, ahead of all others"),
    "REQUEUED": JobState("waiting", "is requeued"),
    "REQUEUE_FED": JobState("waiting", "is requeued"),
    "REQUEUE_HOLD": JobState("waiting", "is requeued and held"),
    "SPECIAL_EXIT": JobState("waiting", "is requeued with a special exit code, and held"),
    "RESV_DEL_HOLD": JobState("waiting", "is held: its reservation was deleted"),
    "RUNNING": JobState("running", "runs"),
    "COMPLETING": JobState("running", "is completing"),
    "RESIZING": JobState("running", "is being resized"),
    "SIGNALING": JobState("running", "is being signalled"),
    "STAGE_OUT": JobState("running", "is exporting its data"),
    "STOPPED": JobState("running", "is stopped and keeps its nodes"),
    "SUSPENDED": JobState("running", "is suspended"),
    "COMPLETED": JobState("done", "completed"),
    "FAILED": JobState("done", "failed"),
    "CANCELLED": JobState("done", "was cancelled"),
    "TIMEOUT": JobState("done", "reached its time limit"),
    "DEADLINE": JobState("done", "reached its deadline"),
    "NODE_FAIL": JobState("done", "lost a node"),
    "BOOT_FAIL": JobState("done", "had a node that did not boot"),
    "OUT_OF_MEMORY": JobState("done", "ran out of memory"),
    "PREEMPTED": JobState("done", "was preempted"),
    "REVOKED": JobState("done", "was revoked"),
}
UNKNOWN = JobState("unknown", "is in a state that this version of GpuCluster does not know")

# Only root and Slurm's own user may release it (job_mgr.c: _update_job). squeue shows Slurm's description instead of
# the reason if there is one.
_RELEASED = "`gpucluster ssh -- sudo scontrol release JOB` tries again"
_REQUEUED_TOO_OFTEN = (
    "it failed to start on its nodes 100 times, as when a check before it fails, and Slurm holds it: when the nodes' "
    f"problem is solved, {_RELEASED}"
)

# The meaning of squeue's reasons. Matched by prefix, because Slurm appends details.
PENDING_REASONS = {
    "None": "Slurm has not considered it yet",
    "Resources": "it is next in the queue; its nodes are busy or starting",
    "Priority": "other jobs are ahead of it",
    "DependencyNeverSatisfied": "a job that it depends on failed: it will never start, cancel it",
    "Dependency": "it depends on a job that has not ended yet",
    "BeginTime": "its begin time, by the cluster's clock, has not come",
    "JobHeldUser": "you hold it: `gpucluster ssh -- scontrol release JOB` releases it",
    "JobHeldAdmin": "an administrator holds it",
    "launch failed requeued held": f"it failed to start, and Slurm holds it: {_RELEASED}",
    "launch failure limit exceeded requeued held": _REQUEUED_TOO_OFTEN,
    "JobHoldMaxRequeue": _REQUEUED_TOO_OFTEN,
    "job requeued in held state": "it was requeued and is held: `gpucluster ssh -- scontrol release JOB` releases it",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "Nodes required for job are DOWN": "nodes that it needs are down or drained",
    "NodeDown": "a node that it needs is down",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "it asks for more time than the partition allows",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition accepts no jobs now",
    "PartitionConfig": "the partition does not have what it asks for",
    "BadConstraints": "no node has what it asks for",
    "Reservation": "it waits for its reservation",
    "Licenses": "it waits for a licence",
    "QOS": "a limit of its quality of service delays it",
    "Assoc": "a limit of its account delays it",
    "Prolog": "the prolog is running on its nodes",
    "BurstBufferResources": "its data will be loaded from S3 shortly before it starts",
    "BurstBufferStageIn": "its data is being loaded from S3: `gpucluster why` shows the progress",
    "burst_buffer/lua: slurm_bb_data_in: ": f"its data could not be loaded from S3: {_RELEASED}",
    "BurstBufferOperation": f"its data could not be loaded from S3: {_RELEASED}",
    "JobArrayTaskLimit": "as many elements of the array run as may run at a time",
    "Cleaning": "Slurm is still cleaning up after its last run",
}

# The mark after a node's state in sinfo.
NODE_MARKS = {
    "*": "does not respond",
    "~": "powered off until a job needs it",
    "#": "booting",
    "%": "powering off",
    "!": "will be powered off",
    "$": "reserved for maintenance",
    "@": "will be rebooted",
    "^": "rebooting",
    "-": "reserved for a planned job",
    "+": "",
}


@dataclass(frozen=True)
class Job:
    job_id: str
    state: str
    partition: str
    nodes: int
    node_list: str
    elapsed: str
    time_limit: str
    submitted: str
    start: str
    """Expected while it is pending; N/A if Slurm does not know."""
    name: str
    reason: str
    elements: tuple[Job, ...] = ()
    """For an array: 29_0, 29_1 and so on, as far as Slurm still knows them."""

    @property
    def phase(self) -> Phase:
        return job_state(self.state).phase


@dataclass(frozen=True)
class Node:
    name: str
    partition: str
    state: str
    """Without its suffix: idle, allocated, mixed, down, drained …"""
    mark: str
    reason: str
    """The reason for its state, as set in Slurm; empty if there is none."""
    since: str

    @property
    def available(self) -> bool:
        return not self.state.startswith(("down", "drain", "fail", "error"))

    @property
    def words(self) -> str:
        note = NODE_MARKS.get(self.mark, "")
        return f"{self.state} ({note})" if note else self.state


def next_try(reason: str) -> tuple[str, str]:
    """Splits a node's reason into why it is out of service, and when the head node tries it again, which is empty if it
    does not (gpucluster_node/retry.py)."""
    why, _, when = reason.partition("; next try ")
    return why, when


def job_state(name: str) -> JobState:
    """`CANCELLED by 1000` and `CANCELLED+` are the same state."""
    return JOB_STATES.get(base_state(name), UNKNOWN)


def base_state(name: str) -> str:
    word = re.match(r"[A-Z_]*", name)
    return word[0] if word else ""


def pending_reason(reason: str) -> str:
    """In plain words, or Slurm's own words. After a colon, Slurm's details follow."""
    text = reason.strip("()")
    found = ((prefix, words) for prefix, words in PENDING_REASONS.items() if text.startswith(prefix))
    prefix, words = next(found, ("", text))
    return f"{words}: {text.removeprefix(prefix)}" if prefix.endswith(": ") else words


def is_held(reason: str) -> bool:
    """Whether it waits until somebody releases it."""
    return re.search("JobHeld|JobHoldMaxRequeue| held( |$)", reason.strip("()")) is not None


def sbatch_argv(script: str) -> list[str]:
    return ["sbatch", "--parsable", script]


def squeue_argv(job_id: str | None = None, nodes: str | None = None) -> list[str]:
    """Jobs of all states that Slurm still remembers: it forgets a job MinJobAge (5 minutes by default) after its end.

    squeue's own filter would miss some: it treats a job that is RUNNING and STOPPED as STOPPED. --array prints a line
    for each element; otherwise pending elements share a line, whose list of indexes is cut off after 64 characters.
    """
    asked = [f"--jobs={job_id}"] * bool(job_id) + [f"--nodelist={nodes}"] * bool(nodes)
    return records.marked([*_SQUEUE, *asked], _JOB_FIELDS)


_SQUEUE = ("squeue", "--noheader", "--states=all", "--array")


def newest_argv(ended: int, also: Iterable[str] = (), fields: str = _JOB_FIELDS) -> list[str]:
    """From squeue's list: jobs that have not ended, jobs with these ids, and this many of the newest others. Slurm
    keeps those of the last hour, which may be thousands: the head node sends only those that are shown. `fields` begin
    with the id and the state."""
    states = " ".join(name for name, state in JOB_STATES.items() if state.phase == "done")
    asked = [fields, *_SQUEUE]
    return ["bash", "-c", _NEWEST, "bash", str(ended), f" {' '.join(also)} ", f" {states} ", str(records.MARKS), *asked]


def owners_argv(job_ids: Iterable[str]) -> list[str]:
    """%F: of an array's elements, the array's id."""
    return ["squeue", "--noheader", "--states=all", f"--jobs={','.join(job_ids)}", "--format=%F|%u"]


def past_owner_argv(job_id: str) -> list[str]:
    """From the accounting records, which also have jobs that slurmctld has forgotten."""
    records = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job_id}", "--format=User"]
    return ["timeout", "15", *records]


def parse_owners(text: str) -> dict[str, str]:
    """Job id -> user."""
    return dict(line.split("|", 1) for line in text.splitlines() if "|" in line)


def scancel_argv(job_id: str) -> list[str]:
    return ["scancel", job_id]


def sinfo_argv(partition: str | None = None, nodes: str | None = None) -> list[str]:
    return [
        "sinfo",
        "--noheader",
        "--Node",
        f"--format={_NODE_FIELDS}",
        *([f"--partition={partition}"] if partition else []),
        *([f"--nodes={nodes}"] if nodes else []),
    ]


def scontrol_nodes_argv() -> list[str]:
    return ["scontrol", "show", "nodes", "--oneliner"]


def node_state_argv(nodes: str, state: str, reason: str | None = None) -> list[str]:
    """`nodes` in Slurm's form: `train-[1-4],ps-1`. Slurm accepts this only from root and its own user."""
    argv = ["sudo", "scontrol", "update", f"nodename={nodes}", f"state={state}"]
    return argv if reason is None else [*argv, f"reason={reason}"]


def shell_argv(partition: str, node: str | None, *, gpus: int, cpus: int, time: str | None, pty: bool) -> list[str]:
    """An interactive job: it ends when its connection does."""
    asked = [f"--nodelist={node}"] * bool(node) + [f"--gres=gpu:{gpus}"] * bool(gpus) + [f"--time={time}"] * bool(time)
    size = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}"]
    return ["srun", "--job-name=shell", f"--partition={partition}", *size, *asked, *["--pty"] * pty, "bash", "--login"]


def hostnames_argv(nodes: str) -> list[str]:
    """`train-[1-4],ps-1` as one name per line."""
    return ["scontrol", "show", "hostnames", nodes]


def scontrol_ping_argv() -> list[str]:
    return ["scontrol", "ping"]


def parse_job_id(text: str) -> str:
    """Parses `sbatch --parsable`: `123` or `123;cluster`, after possible lines of a plug-in. Raises ValueError."""
    lines = text.split()
    job_id = lines[-1].partition(";")[0] if lines else ""
    if not job_id.isdecimal():
        raise ValueError(f"sbatch printed no job id: {text.strip()!r}")
    return job_id


def refusal(text: str) -> str | None:
    """Everything that sbatch says against a job: a plug-in's message or Slurm's first error often has the reason, and
    the last error only the result. None if it printed no error or could not reach slurmctld."""
    said = [each.removeprefix("Batch job submission failed: ") for each in _errors(text)]
    if not said or re.search(r"slurm controller|timed out|Connection refused", said[-1], re.IGNORECASE):
        return None
    return "; ".join(dict.fromkeys(said))


def _errors(text: str) -> Iterator[str]:
    """A site's message may have several lines, of which only the first has the program's name."""
    in_error = False
    for line in text.splitlines():
        if found := re.match(r"sbatch: (?:fatal|error): (.+)", line):
            in_error = True
            yield found[1].strip()
        elif re.match(r"[\w.-]+: ", line):
            in_error = False
        elif in_error and line.strip():
            yield line.strip()


def parse_nodes(text: str) -> list[Node]:
    """One entry for each node and partition."""
    fields = (line.split("|", 4) for line in text.split("\n") if line.count("|") >= 4)
    return [_node(*field) for field in fields]


def _node(name: str, partition: str, state: str, since: str, reason: str) -> Node:
    word = state.rstrip("".join(NODE_MARKS))
    given = reason.strip() not in ("", "none")
    return Node(
        name,
        partition.rstrip("*"),
        word,
        state[len(word) : len(word) + 1],
        reason.strip() if given else "",
        since if given else "",
    )


def parse_ping(text: str) -> dict[str, bool]:
    """Host -> whether slurmctld answers there: `Slurmctld(primary) at head is UP`."""
    return {host: state == "UP" for host, state in re.findall(r"Slurmctld\(\w+\) at (\S+) is (\w+)", text)}
