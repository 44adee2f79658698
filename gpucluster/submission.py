"""From a request to a job that Slurm knows: the job's folder, written whole in one go, and sbatch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from gpucluster import slurm
from gpucluster.errors import RemoteError, UsageError
from gpucluster.job.script import SbatchRequest
from gpucluster.job.spec import JobSpec
from gpucluster.remote import Remote
from gpucluster.snapshot import File, archive

MASKED = "***"

# One round trip. The log exists before the job does; a script that Slurm refuses leaves no folder behind.
_SUBMIT = """
set -eu
mkdir -p "$1/by-id"
cd "$1"
tar --extract --gzip --no-same-owner --file=-
if ! id=$(sbatch --parsable "$1/$2/job.sbatch"); then rm -rf "$2"; exit 1; fi
ln -sfn "../$2" "by-id/${id%%;*}"
echo "$id"
"""


def secret_values(spec: JobSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Raises UsageError where the submitter's environment lacks one."""
    missing = [name for name in spec.secrets if name not in environment]
    if missing:
        raise UsageError(
            f"secrets: {', '.join(missing)} is not set in your environment", f"export {missing[0]}=… and submit again"
        )
    return {name: environment[name] for name in spec.secrets}


def folder_files(request: SbatchRequest, secret: Mapping[str, str]) -> dict[str, File]:
    """Everything in the job's folder but the code."""
    files = {name: File(text, 0o755 if name.startswith("bin/") else 0o644) for name, text in request.files().items()}
    masked = dict(request.spec.env) | dict.fromkeys(request.spec.secrets, MASKED)
    files["job.yaml"] = File(_yaml(request.spec))
    files["env.json"] = File(json.dumps(masked, indent=2) + "\n")
    files["log.txt"] = File("")
    if secret:
        exports = (f"export {name}={shlex.quote(value)}\n" for name, value in secret.items())
        files["secrets.sh"] = File("".join(exports), 0o600)
    return files


def pack(request: SbatchRequest, secret: Mapping[str, str], workdir: Path | None) -> bytes:
    """Raises UsageError where the working directory is too large."""
    return archive(Path(request.folder).name, folder_files(request, secret), workdir)


def submit(remote: Remote, request: SbatchRequest, packed: bytes) -> str:
    """The job's id. Raises UsageError with sbatch's own words where it refuses the job, or RemoteError."""
    folder = Path(request.folder)
    done = remote.run(["sh", "-c", _SUBMIT, "sh", str(folder.parent), folder.name], input=packed, timeout_s=300)
    if refusal := slurm.refusal(done.stderr):
        raise UsageError(f"Slurm does not take the job: {refusal}")
    done.check("the job was not accepted")
    try:
        return slurm.parse_job_id(done.stdout)
    except ValueError as error:
        raise RemoteError(str(error)) from None


def _yaml(spec: JobSpec) -> str:
    import io

    from ruamel.yaml import YAML

    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.dump(spec.model_dump(mode="json"), text)
    return text.getvalue()
