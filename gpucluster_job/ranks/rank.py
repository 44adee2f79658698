"""One rank, whatever the launcher: tells its program who it is, then is the one process that stays beside it.

usage: rank COMMAND..., or mpi-rank COMMAND...
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from gpucluster_job.failures import Failure, record
from gpucluster_job.ranks.identity import Identity, Refused, identify, prepare, this_node
from gpucluster_job.ranks.kernel import end_with_parent
from gpucluster_job.ranks.last_words import reason
from gpucluster_job.ranks.program import Program


def main(words: list[str]) -> int:
    end_with_parent()
    try:
        return run(identify(words[0]), words[1:])
    except Refused as refusal:
        return failed(Identity(os.environ.get("RANK", "?"), this_node()), 1, str(refusal))


def run(identity: Identity, command: list[str], *, leashed: bool = False) -> int:
    """`leashed`: the program is told to end when our input does, and that is no failure."""
    try:
        environment = prepare(identity)
    except Refused as refusal:
        return failed(identity, 1, str(refusal))
    program = Program(command, environment, f"[{identity.label} {identity.node}] ")
    code = program.run(leashed=leashed)
    if program.let_go:
        return 0
    if code and not program.stopped:
        failed(identity, code, reason(code, program.last_lines()), program.ended_at)
    return code


def failed(identity: Identity, code: int, why: str, at: float = 0.0) -> int:
    """Recorded, and said in the log for whoever reads along. A disk without room costs the record, not the exit
    code."""
    try:
        record(Failure(at or time.time(), code, identity.label, identity.node, why))
    except OSError as error:
        why += f" (which could not be recorded: {error})"
    with suppress(OSError):
        os.write(1, f"[{identity.label} {identity.node}] exited with {code}: {why}\n".encode(errors="replace"))
    return code
