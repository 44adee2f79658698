"""What ran on which node and when: the nodes' instances, and Slurm's records of the jobs on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpucluster import account
from gpucluster.errors import RemoteError
from gpucluster.following import node_hours
from gpucluster.head import hostlist, slurm
from gpucluster.head.remote import Remote

HEAD = "head"
FAILED = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE"})
"""Not CANCELLED, which may be the end that was wanted, nor REQUEUED and PREEMPTED: the next run may continue."""
LONGEST_S = 230.0
"""Two calls of sacct, each within node_hours.LIMIT_S."""
SHORTEST_BILL_S = 60.0
"""AWS bills an instance by the second, and for a minute at least (EC2's pricing page, "Per second billing")."""
SHORT_S = 10.0
"""For a verb that has more to show than costs."""
STATES = ("/home/gpucluster", "/srv/gpucluster")
"""The values of `state_folder` in gpucluster/config/models.py."""


@dataclass(frozen=True)
class Life:
    """An instance from its launch until it was last seen. `gpucluster_node/power/lifetimes.py` records it."""

    node: str
    type: str
    purchase: str
    launched: float
    seen: float


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a job: a requeued job has several, and a heterogeneous one a part for each partition. Equal only to
    itself: a month has many, which are keys of the shares of their nodes."""

    job_id: str
    """29_3 of an array's element; 12 of both parts 12+0 and 12+1."""
    user: str
    partition: str
    state: str
    submitted: float
    """If it is a requeued job's further run, when it was requeued."""
    eligible: float | None
    """When nothing but nodes was missing."""
    started: float | None
    ended: float | None
    nodes: tuple[str, ...]
    cpus: int
    """On all its nodes together, as `gpus`."""
    gpus: int
    name: str = ""
    waits_percent: float = 0.0
    """How long its ranks waited for data; 0 also if nobody counted, and for every run but the newest."""

    @property
    def failed(self) -> bool:
        return self.state in FAILED


@dataclass(frozen=True)
class Records:
    now: float
    """By the head node's clock."""
    lives: tuple[Life, ...]
    runs: tuple[Run, ...]
    recorded_since: float | None
    """None: this cluster's head node does not record its nodes."""
    refused: str = ""
    """Why there are no records of jobs."""
    made: float | None = None
    """When the cluster was made, if that is known."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What one job's own programs recorded: node_hours.of_job."""


def read(remote: Remote, state_folder: str, since_s: float, until_s: float, margin_s: float) -> Records:
    """What overlaps this time. margin_s: jobs so long before or after it are read too. Raises RemoteError."""
    return _asked(remote, {"state": state_folder, "since": since_s, "until": until_s, "margin_s": margin_s})


def since(remote: Remote, state_folder: str, job_ids: Iterable[str], margin_s: float) -> Records:
    """What overlaps the time since the first of these jobs was submitted, without names. Raises RemoteError."""
    asked = {"jobs": ",".join(job_ids), "margin_s": margin_s, "limit_s": SHORT_S}
    return _asked(remote, {"state": state_folder, **asked})


def of_job(remote: Remote, job_id: str) -> Records:
    """The runs of this job, and the instances that ran since its submission. Raises RemoteError."""
    found = _asked(remote, {"state": STATES[0], "job": job_id})
    return found if found.recorded_since else _asked(remote, {"state": STATES[1], "job": job_id})


def _asked(remote: Remote, what: Mapping[str, Any]) -> Records:
    program = Path(node_hours.__file__).read_text(encoding="utf-8")
    question = json.dumps({**what, "folder": remote.real(account.jobs())}).encode()
    done = remote.run(["/usr/bin/python3", "-IS", "-c", program], input=question, timeout_s=LONGEST_S)
    try:
        return parse(json.loads(done.check("cannot read what nodes have cost").stdout))
    except (ValueError, LookupError, TypeError) as error:
        raise RemoteError(f"what nodes have cost cannot be read: {error}") from None


def parse(found: Mapping[str, Any]) -> Records:
    lives: dict[tuple[str, float], Life] = {}
    for each in found["lives"]:
        key = str(each["instance"]), float(each["launched"])
        seen = max(float(each["seen"]), key[1] + SHORTEST_BILL_S)
        life = Life(str(each["node"]), str(each["type"]), str(each["purchase"]), key[1], seen)
        if key not in lives or lives[key].seen < life.seen:
            lives[key] = life
    runs = [_run(row, found["names"].get(row[0], "")) for row in found["records"]]
    since = found["recorded_since"]
    return Records(
        float(found["now"]),
        tuple(lives.values()),
        tuple(_with_waits(runs, found["waits"])),
        None if since is None else float(since),
        str(found["refused"]),
        found.get("made"),
        {key: found[key] for key in ("phases", "result", "started") if key in found},
    )


def _run(row: Sequence[str], name: str) -> Run:
    """row: as node_hours.FIELDS."""
    job_id, user, partition, state, submitted, eligible, started, ended, nodes, cpus, resources = row
    gpus = re.search(r"(?:^|,)gres/gpu=(\d+)", resources)
    return Run(
        job_id.partition("+")[0],
        user,
        partition,
        slurm.base_state(state),
        _time(submitted) or 0.0,
        _time(eligible),
        _time(started),
        _time(ended),
        hostlist.names(nodes),
        int(cpus) if cpus.isdecimal() else 0,
        int(gpus[1]) if gpus else 0,
        name,
    )


def _time(text: str) -> float | None:
    """None for `Unknown` and `None`, which sacct prints for what has not come."""
    return float(text) if text.isdecimal() and text != "0" else None


def _with_waits(runs: Sequence[Run], waits: Mapping[str, float]) -> Iterator[Run]:
    newest: dict[str, float] = {}
    for run in runs:
        newest[run.job_id] = max(newest.get(run.job_id, 0.0), run.started or 0.0)
    for run in runs:
        counts = run.job_id in waits and run.started == newest[run.job_id]
        yield replace(run, waits_percent=float(waits[run.job_id])) if counts else run
