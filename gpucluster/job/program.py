"""Mistakes in a job's command that show before it runs: a launcher inside a launcher, a missing script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.errors import UsageError
from gpucluster.job.spec import JobSpec

LAUNCHERS = ("torchrun", "horovodrun", "mpirun", "mpiexec", "srun", "accelerate", "deepspeed")
MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")

_SECRET = r"(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|(?:API|ACCESS|SECRET|PRIVATE)_?KEY)"


def nested(spec: JobSpec) -> Iterator[Finding]:
    """Reports a launcher inside a launcher. If Slurm starts one rank per node, that rank may start the others
    (`--launcher srun -- torchrun …`)."""
    inner = _launcher(spec.command)
    if inner and (spec.ranks_per_node > 1 or inner == spec.launcher):
        per_node = f"{spec.ranks_per_node} of them on each node"
        yield Finding(
            ("command",),
            f"starts {inner}, which starts ranks itself, and {spec.launcher} would start {per_node}",
            f"write only the training program; or use --launcher srun --ntasks-per-node 1 -- {inner} …",
        )


def _launcher(command: tuple[str, ...]) -> str | None:
    name = PurePosixPath(command[0]).name
    if name in LAUNCHERS:
        return name
    module = command[2] if len(command) > 2 and _is_python(name) and command[1] == "-m" else None
    return module if module in MODULES else None


def _is_python(name: str) -> bool:
    return re.fullmatch(r"python[0-9.]*", name) is not None


def script(spec: JobSpec) -> str | None:
    """The script that the command gives to Python as a relative path, which must come from the workdir."""
    if len(spec.command) < 2 or not _is_python(PurePosixPath(spec.command[0]).name):
        return None
    word = spec.command[1]
    return word if word.endswith(".py") and not word.startswith(("/", "-", "~")) else None


def workdir(spec: JobSpec, file: Path | None) -> Path | None:
    """The directory that is copied to the cluster. A relative one is relative to the folder of `file`, the job.yaml.

    Raises UsageError.
    """
    if spec.workdir is None:
        return None
    folder = (file.parent if file else Path()) / Path(spec.workdir).expanduser()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "there is no such folder on this machine"
        raise UsageError(f"workdir: {folder}: {what}", "it is relative to job.yaml, or else to the current folder")
    return folder


def problem(spec: JobSpec, workdir: Path | None) -> UsageError | None:
    """Why the nodes would not find the program: they get only the workdir from this machine."""
    if not workdir or not workdir.is_dir():
        return None
    first, named = spec.command[0], script(spec)
    if first.endswith(".py") and "/" not in first and (workdir / first).exists():
        return UsageError(f"command: {first} is a script, and PATH has no program of that name", f"python {first}")
    if named and not (workdir / named).exists():
        return UsageError(
            f"command: no file {named} in the workdir {workdir}, which is all that nodes get from this machine",
            "give its path relative to the workdir, or use another --workdir",
        )
    return None


def warnings(spec: JobSpec) -> Iterator[str]:
    for name in spec.env:
        if re.fullmatch(_SECRET, name.upper()):
            yield (
                f"--env {name}: everybody on the cluster can read its value in the job's script and job.yaml; "
                f"`--secrets {name}` takes it from your environment and does not write it there"
            )
