"""Mistakes in a job's command that show before it runs: what only a shell understands, a missing script."""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile
from pathlib import Path, PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.errors import UsageError
from gpucluster.job.command import inner_launcher
from gpucluster.job.command.started import is_assignment, started
from gpucluster.job.spec import JobSpec

_SECRET = r"(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|(?:API|ACCESS|SECRET|PRIVATE)_?KEY)"
_BUILTINS = ("cd", "source", ".", "export", "eval", "set", "ulimit", "umask", "module", "pushd")
"""The commands of bash, and `module` of Environment Modules and Lmod, which is a function."""


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


def problem(spec: JobSpec, workdir: Path | None, uploaded: Callable[[], Collection[Path]]) -> UsageError | None:
    """Why the nodes would not find the program: of this machine's files they get only those of the workdir that are
    `uploaded`, which is called only if the program is a file."""
    if not workdir or not workdir.is_dir():
        return None
    first = spec.command[0]
    if first.endswith(".py") and "/" not in first and (workdir / first).exists():
        return UsageError(f"command: {first} is a script, and PATH has no program of that name", f"python {first}")
    for named in _files(spec, workdir):
        where = PurePosixPath(posixpath.normpath(named))
        if where.parts[:1] == ("..",):
            return UsageError(f"command: {named} is outside the workdir {workdir}, {_ALL}", _RELATIVE)
        if not (workdir / where).exists():
            return UsageError(f"command: no file {named} in the workdir {workdir}, {_ALL}", _RELATIVE)
        if not _is_among(where, uploaded()):
            return _not_uploaded(named, workdir)
    return None


def _not_uploaded(named: str, workdir: Path) -> UsageError:
    folder = workdir.absolute()
    if any((each / ".git").exists() for each in (folder, *folder.parents)):
        ignored = f"git ignores {named} in the workdir {workdir}, so it would not be uploaded"
        return UsageError(f"command: {ignored}", _rule(workdir, named))
    never = "folders that `gpucluster fetch` made are not uploaded, nor is __pycache__"
    return UsageError(f"command: {named} in the workdir {workdir} would not be uploaded", f"copy it elsewhere: {never}")


_ALL = "which is all that nodes get from this machine"
_RELATIVE = "give its path relative to the workdir, or use another --workdir"


def all_ignored(workdir: Path) -> UsageError:
    problem = f"git ignores all files of the workdir {workdir}: nothing would be uploaded"
    return UsageError(problem, f"{_rule(workdir, '.')}; or --workdir null, which uploads nothing")


def _rule(workdir: Path, name: str) -> str:
    return f"`git -C {shlex.quote(str(workdir))} check-ignore -v {shlex.quote(name)}` shows the rule"


def _files(spec: JobSpec, workdir: Path) -> Iterator[str]:
    """The files, or a module's folder, that the command runs and that must come from the workdir."""
    for each in started(spec.command):
        top = each.program.partition(".")[0]
        if each.inside or each.program.startswith(("/", "~", "-")) or "{" in each.program:
            continue
        if each.by == "module":
            yield from (name for name in (top, f"{top}.py") if (workdir / name).exists())
        elif each.by or "/" in each.program:
            yield each.program


def _is_among(path: PurePosixPath, uploaded: Collection[Path]) -> bool:
    """Also a folder with uploaded files, and what is behind a link that is uploaded."""
    names = {PurePosixPath(each) for each in uploaded}
    return not names.isdisjoint((path, *path.parents)) or any(path in name.parents for name in names)


def not_sent(spec: JobSpec, workdir: Path, uploaded: Collection[Path]) -> Iterator[str]:
    """Warnings about files that the command names: its program may need them."""
    for word in spec.command[1:]:
        name = word.partition("=")[2] if word.startswith("-") else word
        where = posixpath.normpath(name) if name and not name.startswith(("/", "~")) else ""
        with contextlib.suppress(OSError, ValueError):  # such as a text that is too long for a name
            if where and (workdir / where).is_file() and not _is_among(PurePosixPath(where), uploaded):
                yield f"the command names {name}, which git ignores: it is not uploaded"


def warnings(spec: JobSpec) -> Iterator[str]:
    for name in secrets(spec):
        yield (
            f"--env {name}: everybody on the cluster can read its value in the job's script and job.yaml; "
            f"`--secrets {name}` takes it from your environment and does not write it there"
        )


def secrets(spec: JobSpec) -> Iterator[str]:
    """The variables whose names say that their values are secret."""
    return (name for name in spec.env if re.fullmatch(_SECRET, name.upper()))
