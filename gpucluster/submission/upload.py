"""Uploads a job's folder to the head node and submits its jobs in one round trip: all of them, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpucluster import shipped
from gpucluster.errors import CloudError, RemoteError, UnansweredError, UsageError
from gpucluster.following.known import find
from gpucluster.head import slurm
from gpucluster.head.login import LoginRemote
from gpucluster.head.remote import Completed, Remote
from gpucluster.submission import interrupted

SCRIPTS = shipped.ROOT / "templates" / "submit"

FULL = "No space left on device"
QUOTA = "Disk quota exceeded"
# A file system that has inodes, and none left, is full too. `du` may take long if there are many files.
_LARGEST = """
set -- "$1" $(df -h --output=size,avail,itotal,iavail,target "$1" | tail -n 1)
echo "$2 $3 $4 $5 $6"
if [ "$4 $5" != "0 0" ] && [ "$5" = 0 ]; then unit=--inodes; else unit=-h; fi
timeout 30 du -xs $unit "$1"/*/ 2>/dev/null | grep -v '/by-id/$' | sort -rh | head -n 3
"""

REFUSED = 3
"""The script's exit code for a mistake of the user; stderr says which."""


@dataclass(frozen=True)
class Answer:
    folder: str
    """On the cluster. Another one than the uploaded one, if an earlier upload had already been accepted."""
    said: str
    """The script's output."""


LARGE_BYTES = 10_000_000
"""An upload of this size takes seconds over the tunnel, so its progress is shown."""
TOLD_EVERY_S = 5.0


class Progress:
    """Called with the number of bytes sent so far: reports it every few seconds if the upload is large."""

    def __init__(self, total: int, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._tell, self._clock, self._told = total, tell, clock, clock()
        if total > LARGE_BYTES:
            tell(f"uploading the job's files: {in_words(total)}, compressed")

    def __call__(self, sent: int) -> None:
        if self._total <= LARGE_BYTES or (sent < self._total and self._clock() - self._told < TOLD_EVERY_S):
            return
        self._told = self._clock()
        self._tell(f"uploaded {in_words(sent)} of {in_words(self._total)}")


def in_words(count: int) -> str:
    """A number of bytes, for people."""
    size, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def upload(
    remote: Remote,
    cluster: str,
    folder: str,
    packed: bytes,
    script: str,
    words: Sequence[str],
    tell: Callable[[str], None] = lambda text: None,
) -> Answer:
    """The output of a script in templates/submit/; `words` are its arguments. `cluster`: its full name. Raises
    UsageError with sbatch's message, or RemoteError."""
    fingerprint = interrupted.fingerprint(cluster, folder, packed)
    if earlier := interrupted.Note.find(fingerprint):
        tell("an equal submission was interrupted: asking the head node whether Slurm has its job")
        with earlier:
            said = earlier.outcome(remote)
        if said:
            tell("Slurm has its job: it is not submitted again")
            return Answer(earlier.folder, said)
    path = PurePosixPath(folder)
    argv = ["sh", "-c", program(script), "sh", str(path.parent), path.name, *words]
    with interrupted.Note.write(fingerprint, folder) as note:
        try:
            done = remote.run(argv, input=packed, timeout_s=300, sent=Progress(len(packed), tell))
        except UnansweredError as error:
            said = _after(remote, note, error)
            tell(f"{error.message}; Slurm had accepted the job")
            return Answer(folder, said)
        note.delete()
    return Answer(folder, _accepted(remote, done, folder))


def _after(remote: Remote, note: interrupted.Note, error: UnansweredError) -> str:
    """The output of a script whose connection broke. Raises RemoteError."""
    try:
        said = note.outcome(remote)
    except interrupted.UnknownOutcomeError:
        raise
    except CloudError:
        hint = "run the same command again: it first asks the head node whether Slurm has the job"
        raise RemoteError(error.message, hint) from None
    if not said:
        raise RemoteError(f"{error.message}; no job was submitted", "run the same command again")
    return said


def _accepted(remote: Remote, done: Completed, folder: str) -> str:
    """The script's output. Raises UsageError or RemoteError."""
    if done.exit_code == REFUSED:
        raise UsageError(done.stderr.strip().removeprefix("error: "))
    if refusal := slurm.refusal(done.stderr):
        raise UsageError(f"Slurm rejected the job: {refusal}", find.advice(refusal))
    if FULL in done.stderr or QUOTA in done.stderr:
        raise _full(remote, str(PurePosixPath(folder).parent), is_quota=QUOTA in done.stderr)
    return done.check("the job was not accepted").stdout


def program(script: str) -> str:
    return "".join((SCRIPTS / f"{name}.sh").read_text(encoding="utf-8") for name in ("folder", script))


def _full(remote: Remote, folder: str, *, is_quota: bool) -> RemoteError:
    """Names the full file system, its free space, and the largest folders that may be deleted."""
    lines = remote.run(["sh", "-c", _LARGEST, "sh", folder], timeout_s=60).stdout.splitlines()
    size, free, inodes, free_inodes, mount = (lines[0].split() if lines else []) or ("?", "?", "?", "?", folder)
    lacks_inodes = free_inodes == "0" and inodes != "0"
    unit = " files and folders" if lacks_inodes else ""
    largest = ", ".join(f"{name} ({size}{unit})" for size, name in (line.split("\t", 1) for line in lines[1:]))
    delete = f"delete what you no longer need; the largest folders of jobs are {largest}" if largest else "delete files"
    if is_quota:
        return RemoteError(f"your disk quota on {mount} is used up: the job was not submitted", delete)
    left = f"0 of {inodes} inodes free, one for each file and folder" if lacks_inodes else f"{free} of {size} free"
    is_ours = not isinstance(remote, LoginRemote)
    return RemoteError(
        f"{mount} on the cluster is full: {left}; the job was not submitted",
        f"{delete}; or raise head_node.volume_gib and run `gpucluster up`" if is_ours else delete,
    )
