"""One rank, under any launcher: sets its program's environment, and remains as the one process beside it.

usage: rank COMMAND..., or mpi-rank COMMAND...
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Callable, Mapping

from gpucluster_job.failures import Failure, record, waited
from gpucluster_job.ranks.identity import Identity, Refused, identify, prepare, this_node
from gpucluster_job.ranks.kernel import end_with_parent, limit, limit_hits, name_this_process, out_of_memory_kills
from gpucluster_job.ranks.last_words import reason
from gpucluster_job.ranks.program import GRACE_S, STAYS, Program

HELD_S = 15.0
"""The job asks the others to do so 5 s after it has heard of this rank (hang.py: TOGETHER_S)."""


def main(words: list[str], more: Callable[[Identity], None] = lambda identity: None) -> int:
    """`more` may set variables in our environment, which the job's own override."""
    end_with_parent()
    try:
        identity = identify(words[0])
        more(identity)
        return run(identity, words[1:])
    except Refused as refusal:
        return failed(Identity(os.environ.get("RANK", "?"), this_node()), 1, str(refusal))


def run(identity: Identity, command: list[str], *, leashed: bool = False) -> int:
    """`leashed`: the program is ended when our input closes, and that is no failure."""
    try:
        environment = prepare(identity)
    except Refused as refusal:
        return failed(identity, 1, str(refusal))
    return run_program(identity, command, environment, leashed=leashed)


def run_program(
    identity: Identity,
    command: list[str],
    environment: Mapping[str, str],
    *,
    leashed: bool = False,
    grace_s: int = GRACE_S,
) -> int:
    kills, hits = out_of_memory_kills(), limit_hits()
    program = Program(command, environment, f"[{identity.label} {identity.node}] ", grace_s=grace_s)
    code = program.run(leashed=leashed)
    if program.let_go:
        return 0
    if code and not program.stopped:
        short = out_of_memory_kills() > kills
        own = limit() if short and limit_hits() > hits else ""
        why = reason(code, program.last_lines(), short=short, limit=own)
        failed(identity, code, why, program.ended_at)
        if waited(why) and "MIN_NODES" not in os.environ:
            _stay()
    elif not code and "MIN_NODES" in os.environ:
        with suppress(OSError):  # the others may wait for it, and Horovod then ends one of them
            record(Failure(program.ended_at, 0, identity.label, identity.node, ""))
    return code


def _stay() -> None:
    """The launcher ends the other ranks when this process ends, and they have still to say where they stand."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    name_this_process(STAYS)  # ranks/end.py waits for no program here
    time.sleep(HELD_S)


def failed(identity: Identity, code: int, why: str, at: float = 0.0) -> int:
    """Records the failure, and prints it to the log. If the disk is full, the record is lost but not the exit code."""
    try:
        record(Failure(at or time.time(), code, identity.label, identity.node, why))
    except OSError as error:
        why += f" (which could not be recorded: {error})"
    with suppress(OSError):
        os.write(1, f"[{identity.label} {identity.node}] exited with code {code}: {why}\n".encode(errors="replace"))
    return code
