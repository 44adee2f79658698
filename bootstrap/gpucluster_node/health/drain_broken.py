"""Drains this node if the preflight of the job that has just ended found it broken.

usage: drain_broken FILE     as root, in Slurm's epilog: programs/epilog.d/84-preflight

The job's user writes the file (gpucluster_job/preflight/broken_nodes.py), so nothing in it is trusted. A user can have
only this node drained, on which a job of theirs ran, and chooses only the words after `preflight of job`.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from gpucluster_node import slurm
from gpucluster_node.health import answered, look
from gpucluster_node.log import one_line

LONGEST_BYTES = 1024
NO_WAITING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""A pipe that nobody writes to would hold the epilog up."""


def take(path: Path, uid: int) -> str:
    """The words of the user's file, which is then removed: the job's next run may get the node's next instance. Raises
    ValueError if it is not such a file, and OSError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with open(os.open(path.name, NO_WAITING, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_size > LONGEST_BYTES:
                raise ValueError(f"it is not a file of the user {uid} with at most {LONGEST_BYTES} bytes")
            said = plain(file.read(LONGEST_BYTES).decode(errors="replace"))
        os.unlink(path.name, dir_fd=folder)
    finally:
        os.close(folder)
    if not said:
        raise ValueError("it is empty")
    return said


def plain(text: str) -> str:
    """One line of printable ASCII. A semicolon could begin the time of the node's next try (gpucluster_node/retry.py),
    which is not the user's to set."""
    kept = (each if each.isascii() and each.isprintable() else " " for each in text.replace(";", ","))
    return " ".join("".join(kept).split())


def main() -> None:
    path, job_id = Path(sys.argv[1]), os.environ["SLURM_JOB_ID"]
    try:
        said = take(path, int(os.environ["SLURM_JOB_UID"]))
        why = look.reason([f"preflight of job {job_id}: {said}"])
        print(why, flush=True)
        answered.until_answered(lambda: look.drain(why), "drain")
    except (OSError, ValueError) as error:
        print(f"{one_line(str(path))} of job {job_id} does not count: {one_line(str(error))}", flush=True)
    except slurm.SlurmError as error:
        print(f"job {job_id}: the node is not drained: {error}", flush=True)


if __name__ == "__main__":
    main()
