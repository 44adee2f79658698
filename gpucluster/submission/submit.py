"""Submits a request to Slurm: uploads the job's folder in one transfer and runs sbatch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpucluster.errors import RemoteError, UsageError
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.job import notices
from gpucluster.job.chain import Wait, parse_waits
from gpucluster.job.script import ENVIRONMENTS, SbatchRequest
from gpucluster.job.spec import JobSpec
from gpucluster.submission import arrays
from gpucluster.submission.environments import Build, parse_builds
from gpucluster.submission.packages import Packages
from gpucluster.submission.snapshot import File, archive
from gpucluster.submission.upload import upload

MASKED = "***"

PACKAGES_TOLD = {
    "missing": "the head node is installing its packages while its nodes boot",
    "waiting": "the head node is already installing its packages for another job",
    "stored": "the head node is restoring its packages from software.cache while its nodes boot",
    "later": "the head node will install its packages when the environment is built, while its nodes boot",
}


def secret_values(spec: JobSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Raises UsageError if the submitter's environment lacks one."""
    missing = [name for name in spec.secrets if name not in environment]
    if missing:
        raise UsageError(
            f"secrets: {', '.join(missing)} is not set in your environment", f"export {missing[0]}=… and submit again"
        )
    return {name: environment[name] for name in spec.secrets}


def notices_file(spec: JobSpec, environment: Mapping[str, str], usd_per_hour: float | None) -> dict[str, File]:
    """Only the submitter may read it. None with an empty `environment`. Raises UsageError."""
    if not spec.notify or not environment:
        return {}
    try:
        found = notices.content(spec, environment, usd_per_hour)
    except ValueError as error:
        raise UsageError(f"notify: {error}", "export it with the webhook's address, and submit again") from None
    return {notices.FILE: File(json.dumps(found) + "\n", 0o600)}


def folder_files(
    request: SbatchRequest,
    secret: Mapping[str, str],
    packages: Packages | None = None,
    more: Mapping[str, File] | None = None,
) -> dict[str, File]:
    """All files of the job's folder except the code."""
    files = {name: File(text, 0o755 if name.startswith("bin/") else 0o644) for name, text in request.files().items()}
    masked = dict(request.spec.env) | dict.fromkeys(request.spec.secrets, MASKED)
    files["job.yaml"] = File(_yaml(request.spec))
    files["env.json"] = File(json.dumps(masked, indent=2) + "\n")
    files["log.txt"] = File("")
    if secret:
        exports = (f"export {name}={shlex.quote(value)}\n" for name, value in secret.items())
        files["secrets.sh"] = File("".join(exports), 0o600)
    files |= more or {}
    if request.spec.elements:
        files |= arrays.files(request.spec, files)
        files.pop("secrets.sh", None)  # each element gets a copy and removes it
    return files | (packages.files() if packages else {})


def pack(
    request: SbatchRequest,
    secret: Mapping[str, str],
    workdir: Path | None,
    packages: Packages | None = None,
    more: Mapping[str, File] | None = None,
) -> bytes:
    """`more`: further files of the job's folder. Raises UsageError if the working directory is too large."""
    return archive(Path(request.folder).name, folder_files(request, secret, packages, more), workdir)


@dataclass(frozen=True)
class Submitted:
    job_id: str
    builds: tuple[Build, ...]
    """The jobs that build its environments: it waits for them."""
    packages: str = "none"
    """The state of its own packages: none, ready, or a key of PACKAGES_TOLD."""
    skipped_for: str = ""
    """Set if nothing was queued, because the task's last run was equal and succeeded: the folder of that job."""
    queued: bool = False
    """That job has not ended yet. Only a pipeline that is submitted again accepts it as its own."""
    waits: tuple[Wait, ...] = ()
    """Runs of other jobs that it depends on."""
    folder: str = field(default="", compare=False)
    """On the cluster."""


def submit(
    remote: Remote, request: SbatchRequest, packed: bytes, tell: Callable[[str], None] = lambda text: None
) -> Submitted:
    """Raises UsageError if Slurm refuses the job or its packages do not fit, or RemoteError."""
    own = request.spec.python or ""
    on_head = own if own.startswith("/home/") else ""  # other locations may be visible only on nodes
    words = [ENVIRONMENTS, on_head, *request.environments]
    answer = upload(remote, request.cluster, request.folder, packed, "job", words, tell)
    if answer.said.startswith("{"):
        found = json.loads(answer.said)
        return Submitted(found["job_id"], (), skipped_for=found["folder"], queued=found.get("queued", False))
    first, second, *rest = [*answer.said.splitlines(), "", ""]
    packages = second.removeprefix("packages ")
    try:
        output = "\n".join(rest)
        builds = tuple(parse_builds(output))
        waits = parse_waits(output)
        return Submitted(slurm.parse_job_id(first), builds, packages, waits=waits, folder=answer.folder)
    except ValueError as error:
        raise RemoteError(str(error)) from None


def _yaml(spec: JobSpec) -> str:
    import io

    from ruamel.yaml import YAML

    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.dump(spec.model_dump(mode="json"), text)
    return text.getvalue()
