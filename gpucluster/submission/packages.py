"""A job's own packages: those that it adds to the cluster's environment, and the key under which they are stored.

`gpucluster_job/packages/overlay.py` installs them on the cluster, and compares them with the environment. Conflicts
that show in the lock files here are refused here, without a cluster.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpucluster import shipped
from gpucluster.addresses import within
from gpucluster.errors import UsageError
from gpucluster.job.script import ENVIRONMENTS
from gpucluster.job.spec import JobSpec
from gpucluster.submission.requirements import ARCHIVES, FILES, Line, lines
from gpucluster.submission.snapshot import File, code_files

if TYPE_CHECKING:
    from packaging.requirements import Requirement

LOCKS = shipped.ROOT / "bootstrap" / "environments"
_SHOWN = 10
"""A lock file may have hundreds."""
# bash reports which line failed, and its exit code.
SETUP = """set -eE -o pipefail
trap 'code=$?; echo "setup: $BASH_COMMAND: exit code $code" >&2' ERR
"""


@dataclass(frozen=True)
class Packages:
    environment: str
    """The cluster's environment below them."""
    requirements: tuple[str, ...]
    setup: tuple[str, ...]
    key: str
    """A hash of everything that decides what is installed: jobs with the same key share the packages."""

    def sentence(self) -> str:
        """What the cluster would install. Without pip's options: the URL of an index may have a password."""
        named = [each for each in self.requirements if not each.startswith("-")]
        more = [f"{len(named) - _SHOWN} more"] * (len(named) > _SHOWN)
        what = [", ".join([*named[:_SHOWN], *more])] * bool(named) + [f"setup: {each}" for each in self.setup]
        return f"packages on top of the environment {self.environment}: {'; '.join(what)}"

    def files(self) -> dict[str, File]:
        """The files for the job's folder."""
        asked = {"environment": f"{ENVIRONMENTS}/{self.environment}", "key": self.key}
        files = {"asked.json": json.dumps(asked) + "\n", "requirements.txt": _joined(self.requirements)}
        if self.setup:
            files["setup.sh"] = SETUP + _joined(self.setup)
        return {f"packages/{name}": File(text) for name, text in files.items()}


def of(
    spec: JobSpec, environment: str, folder: Path, workdir: Path | None, shared: Sequence[str] = ()
) -> Packages | None:
    """`folder`: that of job.yaml, or the current one. `shared`: folders that all nodes have. Raises UsageError."""
    if not spec.requirements and not spec.setup:
        return None
    asked = [_without_build(line, environment) for line in lines(spec.requirements, folder)]
    for line in asked:
        _check(line, environment, workdir, shared)
    requirements = tuple(line.text for line in asked)
    named = sorted({*(line.path or line.links or "" for line in asked), *_words(spec.setup)} - {""})
    content = {name: digest for name in named if workdir and (digest := _digest(workdir, name))}
    text = json.dumps([requirements, spec.setup, content], sort_keys=True)
    return Packages(environment, requirements, spec.setup, hashlib.sha256(text.encode()).hexdigest()[:16])


def _joined(texts: tuple[str, ...]) -> str:
    return "".join(f"{each}\n" for each in texts)


def _words(setup: tuple[str, ...]) -> Iterator[str]:
    for line in setup:
        try:
            yield from shlex.split(line, comments=True)
        except ValueError:  # quotes that continue on the next line
            yield from line.split()


def _digest(workdir: Path, name: str) -> str:
    """A hash of a file or folder of the workdir that the lines of setup name. "" if there is none."""
    path = workdir / name
    try:
        inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(workdir))
        if not inside or not path.exists():
            return ""
        files = [path / each for each in code_files(path)] if path.is_dir() else [path]
        found = [(str(each.relative_to(path)), hashlib.sha256(each.read_bytes()).hexdigest()) for each in files
                 if each.is_file()]  # fmt: skip
    except (OSError, ValueError):  # a word that cannot be a file name: too long, or with a NUL
        return ""
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


_CONDAS = re.compile(r"/(croot|feedstock_root|conda-bld|bld|ci_\w+)/")


def _built_from(line: Line, shared: Sequence[str]) -> str:
    """`pip freeze` prints where a package came from (PEP 610): of conda's packages the folder of their build, as in
    https://github.com/conda/conda/issues/11580, and of your own their folder."""
    found = re.search(r"@\s*file://(/[^\s;#]+)", line.text)
    if not found or _CONDAS.search(found[1]):
        return found[1] if found else ""
    is_there = found[1].endswith(ARCHIVES) or any(within(found[1], folder) for folder in shared)
    return "" if is_there else found[1]


def _check(line: Line, environment: str, workdir: Path | None, shared: Sequence[str]) -> None:
    if line.path:
        if not line.path.startswith("/") and not (workdir and (workdir / line.path).exists()):
            raise UsageError(
                f"{line.place}: no file {line.path} in the workdir {workdir}, and the cluster gets no other files",
                "give its path relative to the workdir, or put it on shared storage",
            )
    elif built := _built_from(line, shared):
        raise UsageError(
            f"{line.place}: {line.text}: {built} is on the machine where the package was built",
            "write its version instead, as `pip list --format=freeze` does, or its path on shared storage: /fsx/folder",
        )
    elif not line.option and not re.match(r"[a-z+]+:", line.text):
        _check_version(line, environment)


def _without_build(line: Line, environment: str) -> Line:
    """Removes the build: torch==2.13.0+cu130, from PyTorch's own index, is the environment's torch 2.13.0."""
    text = line.text
    for name, version in frameworks(environment).items():
        text = re.sub(rf"^({re.escape(name)}\s*===?\s*{re.escape(version)})\+[\w.]+", r"\1", text)
    return replace(line, text=text)


def _check_version(line: Line, environment: str) -> None:
    """Compares it with the framework's version, for which all other packages were chosen."""
    from packaging.utils import canonicalize_name

    requirement = _parsed(line)
    pinned = frameworks(environment).get(canonicalize_name(requirement.name))
    marked_out = requirement.marker and not requirement.marker.evaluate({"python_version": "3.11"})
    if pinned is None or marked_out or requirement.specifier.contains(pinned, prereleases=True):
        return
    raise UsageError(
        f"{line.place}: {requirement} does not fit: the environment {environment} has {requirement.name} {pinned}",
        f"require {requirement.name} without a version, and versions of other packages that fit {pinned}; or bring "
        "your own environment: `python: FOLDER`, a venv or conda environment there, or `container_image: IMAGE`",
    )


def _parsed(line: Line) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(re.split(r"\s--", line.text)[0])
    except InvalidRequirement as error:
        said = str(error).splitlines()[0]
        raise UsageError(
            f"{line.place}: {line.text!r} is not a requirement: {said}", _how_to_write(line.text)
        ) from None


def _how_to_write(text: str) -> str:
    if re.fullmatch(r"[\w.\[\]-]+(, *[\w.\[\]-]+)+", text):
        each = re.split(", *", text)
        return f"give each package separately: --with {' --with '.join(each)}, or [{', '.join(each)}] in job.yaml"
    return f"such as torchvision or 'transformers>=5,<6'; a file's name ends with {', '.join(FILES)}"


@functools.cache
def frameworks(environment: str) -> dict[str, str]:
    """The pinned requirements for which the environment's lock was made, by name."""
    lock = (LOCKS / f"{environment}.txt").read_text(encoding="utf-8")
    asked = " ".join(re.findall(r"^# asked: (.*)$", lock, re.MULTILINE))
    return dict(re.findall(r"(?:^| )([a-z0-9-]+)(?:\[[a-z-]+\])?==(\S+)", asked))
