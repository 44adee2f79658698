"""Ends a job, and notes which elements of an array that ends."""

from __future__ import annotations

from gpucluster.following import jobs
from gpucluster.head import arrays, slurm
from gpucluster.head.remote import Remote

# Slurm immediately forgets an element that was cancelled while pending, and the other ones after an hour.
_NOTE = """
folder=$1 number=$2 index=$3
[ -e "$folder/runs/$number" ] || exit 0
cd "$folder"
for each in ${index:-$(cat "runs/$number")}; do
  [ -s "$each/result.json" ] || [ -e "$each/result-$number.json" ] || : >"$each/cancelled-$number"
done
"""


def cancel(remote: Remote, job_id: str) -> None:
    """Raises RemoteError if Slurm refuses it."""
    remote.run(slurm.scancel_argv(job_id)).check(f"cannot cancel job {job_id}")
    number, index = arrays.array_of(job_id)
    words = [jobs.folder_of(remote, number), number, "" if index is None else str(index)]
    remote.run(["sh", "-c", _NOTE, "sh", *words])
