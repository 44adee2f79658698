"""`gpucluster data shard --array`: jobs of Slurm that share one target.

One plans; an array of N packs, each its part of the shards; one finishes, however the others ended, and says what is
missing. What travels is `gpucluster.data` itself, which needs Python alone, and boto3 where data lies in S3.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpucluster import slurm
from gpucluster.config import PARAMETER_SERVERS, ClusterConfig
from gpucluster.data.run import Options
from gpucluster.errors import RemoteError, UsageError
from gpucluster.job.script import JOBS, TEMPLATES
from gpucluster.remote import Remote
from gpucluster.snapshot import File, archive

PACKAGE = Path(__file__).parent
SCRIPT = "shard.sbatch"

# One round trip, as of any job. The array waits for the plan; the last job for the array, whatever became of it.
_SUBMIT = r"""
set -eu
jobs=$1 name=$2 partition=$3 last=$4
folder=$jobs/$name
mkdir -p "$jobs/by-id"
cd "$jobs"
tar --extract --gzip --no-same-owner --file=-
queue() {
  stage=$1 output=$2
  shift 2
  sbatch --parsable --partition="$partition" --job-name="shard-$stage" --chdir="$folder" --nodes=1 --ntasks=1 \
    --requeue --output="$folder/$output" --open-mode=append "$@" "$folder/shard.sbatch" "$folder" "$stage"
}
plan=$(queue plan plan.txt --cpus-per-task=1) || { rm -rf "$folder"; exit 1; }
array=$(queue pack part-%a.txt --array="0-$last" --exclusive \
  --dependency="afterok:$plan" --kill-on-invalid-dep=yes) || {
  scancel "$plan"; rm -rf "$folder"; exit 1
}
finish=$(queue finish log.txt --cpus-per-task=1 --dependency="afterany:$plan:$array") || {
  scancel "$plan" "$array"; rm -rf "$folder"; exit 1
}
ln -sfn "../$name" "by-id/$finish"
echo "$plan $array $finish"
"""


@dataclass(frozen=True)
class Request:
    name: str
    """Of its folder on the cluster."""
    partition: str
    parts: int
    files: Mapping[str, File]


@dataclass(frozen=True)
class Submitted:
    job_id: str
    """The last job's: it has the folder, the log and the result."""
    plan_job_id: str
    array_job_id: str
    folder: str


def partition(config: ClusterConfig, name: str | None) -> str:
    """Raises UsageError."""
    names = [each.name for each in config.partitions] + ([PARAMETER_SERVERS] if config.parameter_servers else [])
    if name is None:
        return names[0]
    if name not in names:
        raise UsageError(f"--partition: no such partition: {name!r}", f"there are: {', '.join(names)}")
    return name


def request(options: Options, parts: int, partition: str, now: datetime | None = None) -> Request:
    """Raises UsageError for what the cluster cannot read."""
    for name, value in (("SRC", options.source), ("DST", options.target)):
        if not value.startswith(("/", "s3://")):
            hint = "a path on storage that its nodes share, such as /fsx/imagenet, or s3://BUCKET/PREFIX"
            raise UsageError(f"{name}: must be a place that the cluster knows, got {value!r}", hint)
    name = f"shard-{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    own = {SCRIPT: File((TEMPLATES / SCRIPT).read_text(encoding="utf-8"), 0o755), "log.txt": File("")}
    files = own | {"options.json": File(options.text() + "\n")} | _library()
    return Request(name, partition, parts, files)


def _library() -> dict[str, File]:
    paths = [PACKAGE / "__init__.py", PACKAGE / "errors.py", *sorted((PACKAGE / "data").glob("*.py"))]
    return {f"lib/{path.relative_to(PACKAGE.parent)}": File(path.read_text(encoding="utf-8")) for path in paths}


def submit(remote: Remote, request: Request) -> Submitted:
    """Raises UsageError with sbatch's own words where it refuses a job, or RemoteError."""
    packed = archive(request.name, request.files, None)
    words = [JOBS, request.name, request.partition, str(request.parts - 1)]
    done = remote.run(["sh", "-c", _SUBMIT, "sh", *words], input=packed, timeout_s=300)
    if refusal := slurm.refusal(done.stderr):
        raise UsageError(f"Slurm does not take the job: {refusal}")
    ids = done.check("the jobs were not accepted").stdout.split()[-3:]
    if len(ids) != 3 or not all(each.isdigit() for each in ids):
        raise RemoteError(f"sbatch printed no job ids: {json.dumps(done.stdout)}")
    plan, array, finish = ids
    return Submitted(finish, plan, array, f"{JOBS}/{request.name}")
