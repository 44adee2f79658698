"""The packages that a job requires as lines for pip: given directly, or in requirements files, pyproject.toml or
uv.lock."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import UsageError

FILES = (".txt", ".in", ".toml", ".lock")
"""Suffixes of file names; everything else is a requirement."""
ARCHIVES = (".whl", ".tar.gz", ".zip")
_OPTIONS = ("--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--no-index", "--pre", "--prefer-binary",
            "--no-binary", "--only-binary", "--trusted-host")  # fmt: skip
"""The options of a requirements file that choose where packages come from."""


@dataclass(frozen=True)
class Line:
    text: str
    place: str
    """For messages: `requirements.txt:3`."""

    @property
    def option(self) -> bool:
        return self.text.startswith("-")

    @property
    def links(self) -> str | None:
        """The folder of --find-links."""
        found = re.match(r"(?:-f|--find-links)[\s=]+(\S+)$", self.text)
        return found[1] if found else None

    @property
    def path(self) -> str | None:
        """The path of a wheel or a source archive in the workdir or on shared storage."""
        name = re.split(r"[;\[]| --", self.text)[0].strip()
        local = name.startswith((".", "/")) or name.endswith(ARCHIVES)
        return name if local and "://" not in name and " @ " not in name else None


def lines(entries: Iterable[str], folder: Path) -> list[Line]:
    """Paths are relative to `folder`. Raises UsageError."""
    return [line for entry in entries for line in _of_entry(entry, folder)]


def _of_entry(entry: str, folder: Path) -> Iterator[Line]:
    if not entry.endswith(FILES):
        yield Line(entry.strip(), "requirements")
        return
    path = folder / Path(entry).expanduser()
    if entry.endswith(".lock"):
        yield from _pip_lines(_exported(path), path.name)
    elif entry.endswith(".toml"):
        yield from (Line(each, path.name) for each in _dependencies(path))
    else:
        yield from _of_file(path, ())


def _of_file(path: Path, within: tuple[Path, ...]) -> Iterator[Line]:
    """The lines of a file and of the files that it includes."""
    if path in within:
        raise UsageError(f"requirements: {path} includes itself", "remove one of the two -r lines")
    for line in _pip_lines(_text(path), path.name):
        option, _, value = line.text.replace("=", " ", 1).partition(" ")
        if option in ("-r", "--requirement"):
            yield from _of_file(path.parent / value.strip(), (*within, path))
        else:
            yield line


def _pip_lines(text: str, name: str) -> Iterator[Line]:
    """Lines as pip reads them, without hashes: pip would then require hashes of the environment's packages too."""
    for number, joined in _logical_lines(text):
        kept = re.sub(r"(^|\s)#.*$", "", re.sub(r"\s--hash=\S+", "", joined)).strip()
        kept = re.sub(r"^-([rif])\s*(?=\S)", r"-\1 ", kept)
        if kept:
            yield _allowed(Line(kept, f"{name}:{number}"))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with the number of its last line. A backslash continues a line."""
    number, rest = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        rest += line
        if rest.endswith("\\"):
            rest = rest[:-1]
        else:
            yield number, rest
            rest = ""
    if rest:
        yield number, rest


def _allowed(line: Line) -> Line:
    option = re.split(r"[\s=]", line.text)[0]
    if option in ("-e", "--editable"):
        raise UsageError(
            f"{line.place}: {line.text}: editable installs are not supported",
            "use a line of setup instead, such as: setup: [pip install -e .]",
        )
    if line.option and option not in (*_OPTIONS, "-r", "--requirement"):
        known = ", ".join(each for each in _OPTIONS if each.startswith("--"))
        raise UsageError(f"{line.place}: the option {option} is not supported", f"supported options: -r, {known}")
    return line


def _dependencies(path: Path) -> list[str]:
    try:
        project = tomllib.loads(_text(path)).get("project")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"requirements: {path} is not valid TOML: {error}") from None
    found = project.get("dependencies") if isinstance(project, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        hint = "write them into a requirements.txt, as `uv export --no-hashes` or `poetry export` does"
        raise UsageError(f"requirements: {path} lists no dependencies under [project]", hint)
    return found


def _exported(path: Path) -> str:
    """The lock as uv exports it, because it differs between platforms and Pythons."""
    _text(path)
    argv = ["uv", "export", "--frozen", "--quiet", "--no-dev", "--no-emit-project", "--no-hashes", "--no-header"]
    try:
        done = subprocess.run([*argv, "--no-annotate"], cwd=path.parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        hint = "install uv, or run `uv export` elsewhere and give the requirements.txt that it writes"
        raise UsageError(f"requirements: reading {path} needs uv, which this machine lacks", hint) from None
    if done.returncode:
        said = done.stderr.strip().removeprefix("error: ")
        raise UsageError(f"requirements: `uv export` cannot read {path}: {said}")
    return done.stdout


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        problem = "there is no such file"
    except UnicodeDecodeError:
        problem = "it is not UTF-8 text"
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
    raise UsageError(f"requirements: {path}: {problem}", "in job.yaml, paths are relative to that file")
