"""A submission whose answer never arrived: whether its job was queued.

The client notes each upload before it sends it, and deletes the note when it has the answer. The next equal upload
finds the note and asks the head node first. `templates/submit/folder.sh` writes the answer into the job's folder, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import os
import tarfile
import time
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO

from gpucluster import shipped
from gpucluster.errors import RemoteError
from gpucluster.head.remote import Remote

NOTES = shipped.CACHE / "submitting"
VALID_S = 3600
"""After an hour, the same command means another job, such as the next one of a daily program."""
WAIT_S = 300
"""How long a submission that is still under way is waited for: pip may compare a job's packages for minutes
(CHECK_TIMEOUT_S in gpucluster_job/packages/overlay.py)."""


class UnknownOutcomeError(RemoteError):
    pass


# Prints the answer; nothing if no job was queued and none will be, or if it was cancelled: then the same command means
# another job. An upload that is not complete yet, or whose script has not begun, loses its claim. Slurm forgets a job
# an hour after its end (MinJobAge).
_OUTCOME = """
mkdir -p "$1/$2" && cd "$1" || exit
if (set -C; : >"$2/submitted") 2>/dev/null; then exit 0; fi
cancelled() {
  states=$(squeue --noheader --states=all --format=%T --jobs="$(head -n 1 "$1/submitted" | tr ' ' ,)" 2>&1)
  case $states in
    *CANCELLED*) ! echo "$states" | grep -qv CANCELLED ;;
    *'Invalid job id'*) [ -e "$1/job.sbatch" ] &&
      [ -z "$(grep -sL '"reason": "cancelled"' "$1/result.json" "$1"/*/result.json)" ] ;;
    *) false ;;
  esac
}
for second in $(seq "$3"); do
  if [ -s "$2/submitted" ]; then
    cancelled "$2" || cat "$2/submitted"
    exit 0
  fi
  [ -d "$2" ] || exit 0
  sleep 1
done
exit 1
"""


class Note:
    """A file on this machine that says which folder a client is uploading. The client locks it, so a note that is
    not locked is that of a client that has ended."""

    def __init__(self, file: Path, folder: str) -> None:
        self.folder, self._file, self._lock = folder, file, _locked(file)

    def __enter__(self) -> Note:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lock:
            self._lock.close()

    @classmethod
    def write(cls, fingerprint: str, folder: str) -> Note:
        name = f"{fingerprint}-{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):  # for example on a full disk: the job can be submitted all the same
            NOTES.mkdir(parents=True, exist_ok=True)
            (NOTES / name).write_text(folder, encoding="utf-8")
        return cls(NOTES / name, folder)

    @classmethod
    def find(cls, fingerprint: str) -> Note | None:
        """That of an equal upload whose client has ended without an answer."""
        for file in NOTES.glob(f"{fingerprint}-*"):
            with contextlib.suppress(OSError):
                is_valid = time.time() - file.stat().st_mtime < VALID_S
                found = cls(file, file.read_text(encoding="utf-8")) if is_valid else None
                if found and found._lock:
                    return found
        return None

    def outcome(self, remote: Remote) -> str:
        """The head node's answer to the upload; empty if no job was queued. When it answers, the note is deleted.
        Raises RemoteError."""
        path = PurePosixPath(self.folder)
        argv = ["sh", "-c", _OUTCOME, "sh", str(path.parent), path.name, str(WAIT_S)]
        done = remote.run(argv, timeout_s=2 * WAIT_S)
        self.delete()
        if done.exit_code:
            raise UnknownOutcomeError(
                f"the submission was interrupted, and it is not known whether Slurm has the job of {self.folder}",
                "see `gpucluster jobs`; if the job is not there, run the same command again",
            )
        return done.stdout

    def delete(self) -> None:
        with contextlib.suppress(OSError):
            self._file.unlink()


def _locked(file: Path) -> IO[str] | None:
    """None if another client holds the lock, or if there is no file."""
    opened = None
    try:
        opened = file.open("r+", encoding="utf-8")  # NFS refuses to lock a file that is opened only to read: flock(2)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if opened:
            opened.close()
        return None
    return opened


def fingerprint(cluster: str, folder: str, packed: bytes) -> str:
    """Equal for two uploads to a cluster that differ only in the name of their folder."""
    name = PurePosixPath(folder).name.encode()
    total = hashlib.sha256(repr((cluster, str(PurePosixPath(folder).parent))).encode())
    with gzip.open(io.BytesIO(packed)) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            path = member.name.encode().replace(name, b"", 1)
            total.update(repr((path, member.mode, member.type, member.linkname, member.size)).encode())
            if file := tar.extractfile(member) if member.isfile() else None:
                total.update(file.read().replace(name, b""))
    return total.hexdigest()[:32]
