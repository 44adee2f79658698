"""`gpucluster data shard --array`: jobs of Slurm that share one target.

One job plans; each of an array of N jobs packs its part of the shards; a last job finishes even if others failed, and
reports missing shards. The jobs run `gpucluster.data`, which needs only Python, and boto3 for data in S3.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gpucluster import account, shipped
from gpucluster.addresses import in_s3, within
from gpucluster.config import ClusterConfig
from gpucluster.config.models import JOB_CREDENTIALS_URL, Access
from gpucluster.config.storage import FsxLustre
from gpucluster.data import excluded
from gpucluster.data.run import Options
from gpucluster.errors import RemoteError, UsageError
from gpucluster.head.remote import Remote
from gpucluster.job.script import TEMPLATES
from gpucluster.layout import Layout
from gpucluster.submission.snapshot import File, archive
from gpucluster.submission.upload import upload

PACKAGE = shipped.package("gpucluster")
SCRIPT = "shard.sbatch"


@dataclass(frozen=True)
class Request:
    name: str
    """The path of its folder on the cluster."""
    partition: str
    parts: int
    files: Mapping[str, File]
    cluster: str
    """Its full name."""


@dataclass(frozen=True)
class Submitted:
    job_id: str
    """The id of the last job, which has the folder, the log and the result."""
    array_job_id: str
    folder: str


def with_own_lists(options: Options) -> Options:
    """Sends the content of lists on this machine. Other lists, such as an earlier array's, are read by the jobs."""
    here = [file for file in options.exclude_from if Path(file).expanduser().is_file()]
    names = tuple(name for file in here for name in excluded.read(file))
    elsewhere = tuple(file for file in options.exclude_from if file not in here)
    return replace(options, exclude=options.exclude + names, exclude_from=elsewhere)


def request(options: Options, parts: int, partition: str | None, layout: Layout) -> Request:
    """Raises UsageError for an address that jobs of the cluster cannot reach."""
    _reached("SRC", options.source, "read", layout)
    for file in options.exclude_from:
        _reached("--exclude", file, "read", layout)
    _reached("DST", options.target, "read-write", layout)
    name = f"shard-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
    own = {
        SCRIPT: File((TEMPLATES / SCRIPT).read_text(encoding="utf-8"), 0o755),
        "options.json": File(options.text() + "\n"),
        "environment.sh": File(_environment(layout.config)),
        "log.txt": File(""),
    }
    files = own | _logs(parts) | _library()
    return Request(name, _partition(layout, partition), parts, files, layout.config.full_name)


def _logs(parts: int) -> dict[str, File]:
    """A folder for the job that plans and one for the array, as elements of other arrays have them: by-id leads to
    them (templates/submit/shards.sh), so that verbs find each log."""
    found = {"plan.txt": File(""), "plan/log.txt": File("../plan.txt", link=True)}
    for part in range(parts):
        found[f"part-{part}.txt"] = File("")
        found[f"parts/{part}/log.txt"] = File(f"../../part-{part}.txt", link=True)
    return found


def _partition(layout: Layout, name: str | None) -> str:
    if name is None:
        return layout.names[0]
    if name not in layout.names:
        raise UsageError(
            f"--partition: the cluster {layout.name} has no partition {name!r}", f"known: {', '.join(layout.names)}"
        )
    return name


def _reached(what: str, url: str, access: Access, layout: Layout) -> None:
    """Checks that jobs can reach the address: on a shared file system, or in S3 with their role's permissions."""
    config = layout.config
    if in_s3(url):
        reached = config.jobs_may(access, url)
        given = [each.uri for each in config.s3_access if each.access in (access, "read-write")]
        kind = "s3_access with read-write" if access == "read-write" else "s3_access"
    else:
        _refuse_passing(what, url, config)
        given = [each.mount for each in layout.mounts if each.outlives_jobs]
        reached = any(within(url, each) for each in given)
        kind = "shared"
    if not reached:
        named = ", ".join(dict.fromkeys(given)) or "nothing"
        hint = "with --array, use storage that all nodes share; without it, this machine packs the shards"
        raise UsageError(f"{what}: jobs of {config.name} cannot reach {url}; {kind}: {named}", hint)


def _refuse_passing(what: str, path: str, config: ClusterConfig) -> None:
    """Refuses a file system with `lifetime: jobs`: it is created for jobs that name it; an array's parts do not."""
    for each in config.lustre_with_jobs:
        if within(path, each.mount):
            reason = f"{path} exists only while jobs use {each.mount}, which the jobs of --array do not"
            hint = f"name the s3:// prefix that it is linked to: {', '.join(_links(each))}; it needs s3_access"
            raise UsageError(f"{what}: {reason}", hint)


def _links(storage: FsxLustre) -> list[str]:
    return [f"{storage.mount}{each.path.rstrip('/')} is {each.s3}" for each in storage.data_repositories]


def _environment(config: ClusterConfig) -> str:
    """Variables for the jobs' role: the node serves the credentials."""
    if not config.s3_access:
        return ""
    region = config.region
    return (
        f"export AWS_CONTAINER_CREDENTIALS_FULL_URI={JOB_CREDENTIALS_URL}\n"
        f"export AWS_REGION={region} AWS_DEFAULT_REGION={region}\n"
    )


def _library() -> dict[str, File]:
    paths = [
        *(PACKAGE / name for name in ("__init__.py", "addresses.py", "encoding.py", "errors.py")),
        *sorted((PACKAGE / "data").glob("*.py")),
    ]
    return {f"lib/{path.relative_to(PACKAGE.parent)}": File(path.read_text(encoding="utf-8")) for path in paths}


def submit(remote: Remote, request: Request) -> Submitted:
    """Raises UsageError with sbatch's message if it refuses a job, or RemoteError."""
    packed = archive(request.name, request.files, None)
    words = [request.partition, str(request.parts - 1)]
    answer = upload(remote, request.cluster, f"{account.jobs()}/{request.name}", packed, "shards", words)
    ids = answer.said.split()[-3:]
    if len(ids) != 3 or not all(each.isdigit() for each in ids):
        raise RemoteError(f"sbatch printed no job ids: {json.dumps(answer.said)}")
    _, array, finish = ids
    return Submitted(finish, array, answer.folder)
