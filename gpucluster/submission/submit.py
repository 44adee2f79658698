"""From a request to a job that Slurm knows: the job's folder, written whole in one go, and sbatch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import RemoteError, UsageError
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.job.script import ENVIRONMENTS, SbatchRequest
from gpucluster.job.spec import JobSpec
from gpucluster.submission.environments import Build, parse_builds
from gpucluster.submission.packages import Packages
from gpucluster.submission.snapshot import File, archive
from gpucluster.submission.upload import upload

MASKED = "***"

# One round trip. The log exists before the job does; a script that Slurm refuses leaves no folder behind. An
# environment that is not there is made by a job of its own: this one starts after that, and never where that fails.
# What sbatch is given here wins over the script: a dependency of the script's own is repeated. The job's own packages
# are compared with the environment before nodes are paid for, and installed on the head node while its nodes boot.
_SUBMIT = """
envs=$1 python=$2
shift 2
if [ -n "$python" ] && [ ! -x "$python/bin/python" ]; then
  echo "error: python: there is no program $python/bin/python on the cluster" >&2
  give_up 3
fi
for each; do [ -e "$envs/.wanted/$each/complete" ] || missing="${missing:-} $each"; done
: >"$name/builds"
if [ -n "${missing:-}" ]; then
  sudo -n /opt/gpucluster/bin/node-program jobs.environments ensure $missing >"$name/builds" || give_up
fi
packages=none
overlay() { /usr/bin/python3 -IS "$name/lib/gpucluster_job" overlay "$1" "$jobs/$name"; }
if [ -e "$name/packages" ]; then packages=$(overlay check) || give_up "$?"; fi
after=$(awk 'NF == 3 { printf ":%s", $2 }' "$name/builds")
own=$(sed -nE 's/^#SBATCH (--dependency=|-d)//p' "$name/job.sbatch" | tail -n 1)
if [ -n "$after" ]; then set -- "--dependency=afterok$after${own:+,$own}" --kill-on-invalid-dep=yes; else set --; fi
queue "$@" "$jobs/$name/job.sbatch"
link
case $packages in missing | later) overlay start ;; esac
echo "$id"
echo "packages $packages"
cat "$name/builds"
"""
PACKAGES_TOLD = {
    "missing": "the head node installs its packages, while its nodes boot",
    "waiting": "the head node is installing its packages already, for another job",
    "later": "the head node installs its packages when the environment is there, while its nodes boot",
}


def secret_values(spec: JobSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Raises UsageError where the submitter's environment lacks one."""
    missing = [name for name in spec.secrets if name not in environment]
    if missing:
        raise UsageError(
            f"secrets: {', '.join(missing)} is not set in your environment", f"export {missing[0]}=… and submit again"
        )
    return {name: environment[name] for name in spec.secrets}


def folder_files(
    request: SbatchRequest, secret: Mapping[str, str], packages: Packages | None = None
) -> dict[str, File]:
    """Everything in the job's folder but the code."""
    files = {name: File(text, 0o755 if name.startswith("bin/") else 0o644) for name, text in request.files().items()}
    masked = dict(request.spec.env) | dict.fromkeys(request.spec.secrets, MASKED)
    files["job.yaml"] = File(_yaml(request.spec))
    files["env.json"] = File(json.dumps(masked, indent=2) + "\n")
    files["log.txt"] = File("")
    if secret:
        exports = (f"export {name}={shlex.quote(value)}\n" for name, value in secret.items())
        files["secrets.sh"] = File("".join(exports), 0o600)
    return files | (packages.files() if packages else {})


def pack(
    request: SbatchRequest, secret: Mapping[str, str], workdir: Path | None, packages: Packages | None = None
) -> bytes:
    """Raises UsageError where the working directory is too large."""
    return archive(Path(request.folder).name, folder_files(request, secret, packages), workdir)


@dataclass(frozen=True)
class Submitted:
    job_id: str
    builds: tuple[Build, ...]
    """Jobs that make what it needs, and that it waits for."""
    packages: str = "none"
    """What becomes of its own packages: none, ready, or a key of PACKAGES_TOLD."""


def submit(remote: Remote, request: SbatchRequest, packed: bytes) -> Submitted:
    """Raises UsageError where Slurm refuses the job, or its packages do not fit; or RemoteError."""
    own = request.spec.python or ""
    on_head = own if own.startswith("/home/") else ""  # where else it lies, only nodes may see it
    said = upload(remote, request.folder, packed, _SUBMIT, [ENVIRONMENTS, on_head, *request.environments])
    first, second, *rest = [*said.splitlines(), "", ""]
    packages = second.removeprefix("packages ")
    try:
        return Submitted(slurm.parse_job_id(first), tuple(parse_builds("\n".join(rest))), packages)
    except ValueError as error:
        raise RemoteError(str(error)) from None


def _yaml(spec: JobSpec) -> str:
    import io

    from ruamel.yaml import YAML

    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.dump(spec.model_dump(mode="json"), text)
    return text.getvalue()
