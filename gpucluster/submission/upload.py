"""A job's folder goes to the head node and its jobs to Slurm in one round trip: all of them, or nothing stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from gpucluster.errors import UsageError
from gpucluster.head import slurm
from gpucluster.head.remote import Remote

# What the caller's script has: `queue` takes sbatch's words and sets $id; `give_up [CODE]` takes everything back and
# exits; `link` makes the folder findable by $id. It runs in the folder that job folders lie in.
_UPLOAD = """
set -eu
jobs=$1 name=$2 queued=''
shift 2
mkdir -p "$jobs/by-id"
cd "$jobs"
tar --extract --gzip --no-same-owner --file=-
give_up() { cd "$jobs"; [ -z "$queued" ] || scancel $queued; rm -rf "$name"; exit "${1:-1}"; }
queue() { id=$(sbatch --parsable "$@") || give_up; id=${id%%;*} id=${id##*[!0-9]} queued="$queued $id"; }
link() { ln -sfn "../$name" "by-id/$id"; }
"""

REFUSED = 3
"""The script's exit code for what the user asked for wrongly; stderr says what."""


def upload(remote: Remote, folder: str, packed: bytes, script: str, words: Sequence[str]) -> str:
    """What the script prints; `words` are its arguments. Raises UsageError with sbatch's own words, or RemoteError."""
    path = PurePosixPath(folder)
    argv = ["sh", "-c", _UPLOAD + script, "sh", str(path.parent), path.name, *words]
    done = remote.run(argv, input=packed, timeout_s=300)
    if done.exit_code == REFUSED:
        raise UsageError(done.stderr.strip().removeprefix("error: "))
    if refusal := slurm.refusal(done.stderr):
        raise UsageError(f"Slurm rejected the job: {refusal}")
    return done.check("the job was not accepted").stdout
