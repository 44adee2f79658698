"""Mistakes in a job's command that show before it runs: what only a shell understands, a missing script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.errors import UsageError
from gpucluster.job import inner_launcher
from gpucluster.job.spec import JobSpec
from gpucluster.job.started import is_assignment, started

_SECRET = r"(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|(?:API|ACCESS|SECRET|PRIVATE)_?KEY)"
_BUILTINS = ("cd", "source", ".", "export", "eval", "set", "ulimit", "umask", "module", "pushd")
"""Of bash, and `module` of Environment Modules and Lmod, which is a function."""


def check(spec: JobSpec) -> Iterator[Finding]:
    """What only a shell understands, and a launcher inside a launcher."""
    assigned = list(takewhile(is_assignment, spec.command))
    found = started(spec.command)
    name = found[0].program if found and not found[0].inside else ""
    if assigned:
        options = " ".join(f"--env {shlex.quote(each)}" for each in assigned)
        problem, hint = f"no shell sets {assigned[0]}", f"write {options} before the command, or env in job.yaml"
        yield Finding(("command",), problem, hint)
    elif is_assignment(name):
        problem = f"nothing sets {name}: only a shell takes that for a variable"
        yield Finding(("command",), problem, f"write --env {shlex.quote(name)}, or env in job.yaml")
    elif name in _BUILTINS:
        yield Finding(("command",), f"{name} is a command of the shell, and no program", f"write bash -c '{name} …'")
    else:
        yield from inner_launcher.check(spec, found)


def script(spec: JobSpec) -> str | None:
    """The script that the command gives to Python as a relative path, which must come from the workdir."""
    if len(spec.command) < 2 or not re.fullmatch(r"python[0-9.]*", PurePosixPath(spec.command[0]).name):
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
