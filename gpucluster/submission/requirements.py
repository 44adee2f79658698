"""The packages that a job requires as lines for pip: given directly, or in requirements files, pyproject.toml or
uv.lock."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucluster.encoding import marked
from gpucluster.errors import UsageError

FILES = (".txt", ".in", ".toml", ".lock")
"""Suffixes of file names; everything else is a requirement."""
ARCHIVES = (".whl", ".tar.gz", ".zip")
_OPTIONS = ("--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--no-index", "--pre", "--prefer-binary",
            "--no-binary", "--only-binary", "--trusted-host")  # fmt: skip
"""The options of a requirements file that choose where packages come from."""
_COMMENT = re.compile(r"(^|\s+)#.*$")


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
            if "://" in value:
                raise UsageError(
                    f"{line.place}: {line.text}: only files can be included", "download it, and include it"
                )
            yield from _of_file(path.parent / value.strip(), (*within, path))
        else:
            yield line


def _pip_lines(text: str, name: str) -> Iterator[Line]:
    """Lines as pip reads them, without hashes: pip would then require hashes of the environment's packages too."""
    for number, joined in _logical_lines(text):
        kept = _COMMENT.sub("", re.sub(r"\s--hash=\S+", "", joined)).strip()
        kept = re.sub(r"^-([rif])\s*(?=\S)", r"-\1 ", kept)
        if kept:
            yield _allowed(Line(kept, f"{name}:{number}"))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each logical line with the number of its first line, as pip counts. A backslash continues no comment."""
    first, rest = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        first = first or number
        comment = _COMMENT.match(line)
        if line.endswith("\\") and not comment:
            rest += line.strip("\\")
            continue
        yield first, f"{rest} {line}" if comment else rest + line
        first, rest = 0, ""
    if rest:
        yield first, rest


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
        project = tomllib.loads(_toml(path)).get("project")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"requirements: {path} is not valid TOML: {error}") from None
    found = project.get("dependencies") if isinstance(project, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        hint = "write them into a requirements.txt, as `uv export --no-hashes` or `poetry export` does"
        raise UsageError(f"requirements: {path} lists no dependencies under [project]", hint)
    return found


def _exported(path: Path) -> str:
    """The lock as uv exports it, because it differs between platforms and Pythons."""
    _content(path)
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


def _toml(path: Path) -> str:
    try:
        return _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"requirements: {path}: {_not(error)}", "TOML is UTF-8: save the file so") from None


def _text(path: Path) -> str:
    """A requirements file's text. As in pip (_internal/req/req_file.py), a byte order mark names the encoding, or PEP
    263's comment in one of the first two lines: `# -*- coding: latin-1 -*-`."""
    data = _content(path)
    mark, encoding = marked(data) or (b"", _declared(data) or "utf-8")
    hint = "save it as UTF-8, or write its encoding into its first line: # -*- coding: latin-1 -*-"
    try:
        text = data.removeprefix(mark).decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(f"requirements: {path}: {_not(error)}", hint) from None
    except (LookupError, ValueError):
        problem = f"its first lines name the encoding {encoding!r}, which Python does not know"
        raise UsageError(f"requirements: {path}: {problem}", "such as # -*- coding: utf-8 -*-") from None
    if "\0" in text:
        raise UsageError(f"requirements: {path}: it has NUL characters, as UTF-16 without its mark has", hint)
    return text


def _declared(data: bytes) -> str:
    for line in data.split(b"\n")[:2]:
        if line.startswith(b"#") and (found := re.search(rb"coding[:=]\s*([-\w.]+)", line)):
            return found[1].decode("ascii", errors="replace")
    return ""


def _not(error: UnicodeDecodeError) -> str:
    return f"it is not {error.encoding} text: byte {error.start} is 0x{error.object[error.start]:02x}"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        hint = "in job.yaml, paths are relative to that file"
        raise UsageError(f"requirements: {path}: there is no such file", hint) from None
    except OSError as error:
        raise UsageError(f"requirements: {path}: it cannot be read: {error.strerror}") from None
