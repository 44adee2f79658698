"""The head node's part of BeeGFS: manages it, publishes its phase, and starts a new generation when a server is lost.

`decide` compares what the nodes report with Slurm and returns actions; `act` executes them. While the file system is
not ready, its servers are drained, with the reason, and jobs that used the lost one wait in the queue.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from gpucluster_node import retry, slurm
from gpucluster_node.beegfs import node as beegfs_node
from gpucluster_node.beegfs import state as shared
from gpucluster_node.beegfs.state import Report, Settings, State
from gpucluster_node.fleet import BUNDLE
from gpucluster_node.log import start_logging
from gpucluster_node.scripts import read_users_file

log = logging.getLogger("beegfs")
INTERVAL_S = 5
MAX_REASON = 250
MAX_SCRIPT_BYTES = 1 << 20
MAX_ENTRIES = 200
"""In the folder of a script. A job's own has some twenty; a user's may have a million, and each would be read."""
_CHANGING = ("POWERING_UP", "POWER_UP", "POWERING_DOWN", "POWER_DOWN", "POWERED_DOWN", "DOWN")
Registered = Collection[tuple[str, int]]
"""Servers known to management: (meta or storage, number)."""


@dataclass(frozen=True)
class Action:
    """verb: manage (a generation), drain, resume (of a node), hold, requeue (and hold), release (of a job)."""

    verb: str
    name: str
    reason: str = ""


def decide(
    settings: Settings,
    state: State | None,
    reports: Mapping[str, Report],
    nodes: Sequence[slurm.Node],
    registered: Registered,
    jobs: Sequence[slurm.Queued],
) -> tuple[State, list[Action]]:
    """jobs: pending and running jobs that name the file system. The state is valid once the actions are done."""
    following = _next(settings, state, reports, {node.name: node for node in nodes}, registered)
    begins = state is None or following.generation != state.generation
    actions = [Action("manage", following.generation, following.why)] if begins else []
    if following.phase == "ready":
        actions += [Action("release", job) for job in following.held]
        following = replace(following, held=())
    else:
        kept = list(_kept(following, begins, reports, jobs))
        actions += kept
        following = replace(following, held=(*following.held, *(action.name for action in kept)))
    return following, actions + list(_gates(settings, following, reports, nodes))


def _kept(state: State, begins: bool, reports: Mapping[str, Report], jobs: Sequence[slurm.Queued]) -> Iterator[Action]:
    """Jobs that wait until it is ready: those that have not started, and those that used the lost one. The latter name
    it, or had files open there, which nodes report a little later."""
    verbs = {job.job_id: "requeue" if job.running else "hold" for job in jobs if begins or not job.running}
    if state.why != "new":
        verbs |= {job: "requeue" for report in reports.values() if not report.client for job in report.users}
    for job, verb in verbs.items():
        if job not in state.held:
            yield Action(verb, job, f"until generation {state.generation} is ready")


def _next(
    settings: Settings,
    state: State | None,
    reports: Mapping[str, Report],
    nodes: Mapping[str, slurm.Node],
    registered: Registered,
) -> State:
    described = shared.describe(settings)
    if state is None:
        return State("1", "building", "new", described)
    if state.settings != described:
        return State(_after(state), "building", "new", described, state.held)
    if state.phase != "building":
        lost = [
            f"{name} {why}" for name in settings.servers if (why := _lost(state, reports.get(name), nodes.get(name)))
        ]
        if lost:
            return State(_after(state), "building", "; ".join(lost), described, state.held)
    if state.phase == "building" and _are_up(settings, state, reports, registered):
        return replace(state, phase="filling" if settings.source else "ready")
    if state.phase == "filling" and all(_of(reports, name).filled == state.generation for name in settings.servers):
        return replace(state, phase="ready")
    return state


def _after(state: State) -> str:
    return str(int(state.generation) + 1)


def _of(reports: Mapping[str, Report], name: str) -> Report:
    return reports.get(name, Report(name))


def _lost(state: State, report: Report | None, node: slurm.Node | None) -> str | None:
    """Why the server has lost its memory; None if it has not."""
    if report is None or report.server != state.generation:
        return "has lost its memory"
    if node and node.has("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"):
        return "is powered down"
    # A node that a user set down still has its memory.
    if node and node.has("DOWN") and (node.has("NOT_RESPONDING") or retry.is_ours(node)):
        return "is down"
    return None


def _are_up(settings: Settings, state: State, reports: Mapping[str, Report], registered: Registered) -> bool:
    numbers = [int(name.rpartition("-")[2]) for name in settings.servers]
    return all(_of(reports, name).server == state.generation for name in settings.servers) and all(
        (kind, number) in registered for kind in ("meta", "storage") for number in numbers
    )


def _reason(settings: Settings, state: State, error: str = "") -> str:
    """A node's reason in Slurm."""
    doing = {"building": "is being built", "filling": f"is being filled from {settings.source}"}[state.phase]
    why = "" if state.why == "new" else f", because {state.why}"
    text = f"{settings.mount} {doing}{why}{f': {error}' if error else ''}"
    # Quotes and newlines would end scontrol's argument in its listing.
    return " ".join(text.replace('"', "'").split())[:MAX_REASON]


def _gates(
    settings: Settings, state: State, reports: Mapping[str, Report], nodes: Sequence[slurm.Node]
) -> Iterator[Action]:
    """Nodes that a user or another program drained are not ours; our reasons begin with the mount."""
    errors = [f"{name}: {_of(reports, name).error}" for name in settings.servers if _of(reports, name).error]
    for node in nodes:
        if node.name not in settings.servers or node.has(*_CHANGING):
            continue
        ours = node.reason.startswith(f"{settings.mount} is being ")
        if state.phase == "ready":
            if node.has("DRAIN") and ours:
                yield Action("resume", node.name)
            continue
        reason = _reason(settings, state, *errors[:1])
        if not node.has("DRAIN") or (ours and node.reason != reason):
            yield Action("drain", node.name, reason)


def act(actions: Sequence[Action]) -> None:
    """One failed action must not block the others."""
    for action in actions:
        log.info("%s %s %s", action.verb, action.name, action.reason)
        try:
            _do(action)
        except slurm.SlurmError as error:
            log.error("%s %s: %s", action.verb, action.name, error)


class Failed(Exception):
    """The message is the last line of bootstrap/beegfs.sh."""


def manage(generation: str) -> None:
    """Raises Failed."""
    done = beegfs_node.run("management", generation)
    if done.returncode:
        raise Failed(done.stderr.strip().rpartition("\n")[2])


def _do(action: Action) -> None:
    if action.verb == "drain":
        slurm.update([action.name], state="drain", reason=action.reason)
    elif action.verb == "resume":
        slurm.set_state([action.name], "resume")
    elif action.verb != "manage":
        slurm.job(_JOB_VERBS[action.verb], action.name)


_JOB_VERBS = {"hold": "hold", "requeue": "requeuehold", "release": "release"}


def registered() -> set[tuple[str, int]]:
    """Servers in management's list; none if it does not answer."""
    argv = ["bash", str(BUNDLE / "beegfs.sh"), "list"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return set()
    lines = (line.split() for line in done.stdout.splitlines())
    return {(words[0], int(words[1])) for words in lines if len(words) == 2 and words[1].isdecimal()}


def with_job_ids(reports: Mapping[str, Report], queued: Sequence[slurm.Queued]) -> dict[str, Report]:
    """Jobs in a node's report have Slurm's numbers, and the last element's is its whole array's. Drops those that have
    ended: Slurm would run them again."""
    running = {job.part: job.job_id for job in queued if job.running}
    return {
        node: replace(report, users=tuple(running[user] for user in report.users if user in running))
        for node, report in reports.items()
    }


def names(mount: str, job: slurm.Queued) -> bool:
    """Whether the job's script, or its specification beside it, contains a path of the file system."""
    path = re.compile(rf"(?<![\w./-]){re.escape(mount)}(?![\w.-])")
    # A job that was not submitted as a file has a word there, not a path.
    return job.script.startswith("/") and any(path.search(text) for text in _texts(Path(job.script)))


def _texts(script: Path) -> Iterator[str]:
    for path in (script, *_specifications(script.parent)):
        try:
            text = read_users_file(path, MAX_SCRIPT_BYTES + 1)
            if len(text) <= MAX_SCRIPT_BYTES:
                yield text
        except (OSError, ValueError):
            continue


def _specifications(folder: Path) -> list[Path]:
    """Among the folder's first entries."""
    try:
        with os.scandir(folder) as entries:
            return [Path(each.path) for each in islice(entries, MAX_ENTRIES) if each.name.endswith((".json", ".yaml"))]
    except (OSError, ValueError):
        return []


def look(settings: Settings, follower: beegfs_node.Follower) -> None:
    """Runs one round."""
    state = shared.load_state()
    building = state is not None and state.phase == "building"
    queued = slurm.queued()
    jobs = [job for job in queued if names(settings.mount, job)]
    known = registered() if building else set()
    reports = with_job_ids(shared.load_reports(), queued)
    following, actions = decide(settings, state, reports, slurm.nodes(), known, jobs)
    if state is None or following.generation != state.generation:
        manage(following.generation)
    # Writes the state first, then acts: if this process dies in between, nothing of the state is lost.
    shared.save_state(following)
    if state is None or following.phase != state.phase:
        level = logging.INFO if following.why == "new" else logging.WARNING
        log.log(
            level, "%s: generation %s is %s (%s)", settings.mount, following.generation, following.phase, following.why
        )
    act(actions)
    follower.step(following)


def main() -> None:
    start_logging()
    settings, started = shared.settings(), False
    follower = beegfs_node.Follower(settings, socket.gethostname())
    while True:
        try:
            # Management does not start automatically with the head node.
            if not started and (state := shared.load_state()):
                manage(state.generation)
            started = True
            look(settings, follower)
        except (slurm.SlurmError, Failed, OSError) as error:
            log.warning("skipped: %s", error)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
