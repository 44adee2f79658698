"""What a command starts: the programs behind `env`, `nohup` and others, python's options, and `bash -c`."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple


class Started(NamedTuple):
    program: str
    """As it is written: a program, a module, or a script that python or a shell runs."""
    words: tuple[str, ...]
    """After it."""
    by: Literal["", "python", "module", "shell"] = ""
    """What runs it."""
    inside: bool = False
    """Whether a shell's text starts it, or something that may change the working directory or the file system: its
    name may mean another file."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.program).name


class _Way(NamedTuple):
    """How a program takes the command that it starts: its options with a value, and the words before the command."""

    valued: frozenset[str] = frozenset()
    before: int = 0


def _way(valued: str = "", before: int = 0) -> _Way:
    return _Way(frozenset(valued.split()), before)


_RUNNERS = {
    "uv": _way("-p --python --with --with-editable --with-requirements --extra --group --package --env-file", 1),
    "conda": _way("-n --name -p --prefix --cwd", 1),
    "mamba": _way("-n --name -p --prefix --cwd", 1),
    "micromamba": _way("-n --name -p --prefix --cwd", 1),
    "poetry": _way("-C --directory -P --project", 1),
    "pipenv": _way("--python", 1),
    "pdm": _way("-p --project", 1),
    "pixi": _way("-e --environment --manifest-path", 1),
    "apptainer": _way("-B --bind --env --env-file -H --home -W --workdir --pwd --overlay", 2),
    "singularity": _way("-B --bind --env --env-file -H --home -W --workdir --pwd --overlay", 2),
}
"""The words before the command are `run`, or `exec` and an image. They have more options than these."""
_STARTERS = _RUNNERS | {
    "env": _way("-u --unset -C --chdir"),
    "nohup": _way(),
    "setsid": _way(),
    "exec": _way("-a"),
    "command": _way(),
    "time": _way("-f --format -o --output"),
    "nice": _way("-n --adjustment"),
    "ionice": _way("-c --class -n --classdata"),
    "stdbuf": _way("-i --input -o --output -e --error"),
    "timeout": _way("-k --kill-after -s --signal", 1),
    "taskset": _way("", 1),
    "numactl": _way("-m -N -C -p -i -l"),
}
"""Programs that start the command after them. The word before it is the limit of timeout and the mask of taskset."""
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_VALUED_BY_SHELLS = ("--rcfile", "--init-file")
_MOVING = ("-C", "--chdir", "--cwd", "--directory", "--pwd", "-W", "--workdir")
_KEYWORDS = ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time")


def started(words: Sequence[str]) -> list[Started]:
    """The programs that a command starts: one, or those of a shell's text. Empty if a text is incomplete."""
    try:
        return list(_started(words))
    except ValueError:  # of shlex: no closing quotation
        return []


def _started(words: Sequence[str]) -> Iterator[Started]:
    if not words:
        return
    name, rest = PurePosixPath(words[0]).name, words[1:]
    if name in _STARTERS and (behind := _behind(name, rest)):
        moves = _may_move(name, rest[: len(rest) - len(behind)])
        yield from (each._replace(inside=each.inside or moves) for each in _started(behind))
    elif re.fullmatch(r"python[0-9.]*", name):
        yield from _by_python(rest)
    elif name in _SHELLS:
        yield from _by_shell(rest)
    else:
        yield Started(words[0], tuple(rest))


def _may_move(name: str, words: Sequence[str]) -> bool:
    """`words`: those before the command. The value of an option that is not known here may be taken for it."""
    options = [word for word in words if word.startswith("-") and word != "--"]
    unknown = name in _RUNNERS and any(word not in _STARTERS[name].valued for word in options)
    return unknown or any(word.partition("=")[0] in _MOVING or word.startswith("-C") for word in options)


def _behind(name: str, words: Sequence[str]) -> list[str]:
    """The command that this program starts; empty if it starts none."""
    way, rest = _STARTERS[name], list(words)
    before = way.before
    if name == "command" and rest[:1] in (["-v"], ["-V"]):  # only says where a program is
        return []
    while rest:
        word = rest.pop(0)
        if name == "env" and word in ("-S", "--split-string") and rest:
            rest[:1] = shlex.split(rest[0])
        elif word == "--" or (name == "env" and is_assignment(word)):
            continue
        elif word.startswith("-"):
            del rest[: word in way.valued]
        elif not before:
            return [word, *rest]
        elif name in _RUNNERS and before == way.before and word not in ("run", "exec"):
            return []
        else:
            before -= 1
    return []


def is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word) is not None


def _by_python(words: Sequence[str]) -> Iterator[Started]:
    """Python's options of one letter may share a word; c, m, W and X take a value (python --help)."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        found = None if word.startswith("--") else re.match(r"-[A-Za-z]*?([cmWX])(.*)", word, re.DOTALL)
        if found is None:
            del rest[: word == "--check-hash-based-pycs"]
            continue
        value = found[2] or (rest.pop(0) if rest else "")
        if found[1] == "c":
            return
        if found[1] == "m":
            yield Started(value, tuple(rest), "module")
            return
    if rest:
        yield Started(rest[0], tuple(rest[1:]), "python")


def _by_shell(words: Sequence[str]) -> Iterator[Started]:
    rest, is_text = list(words), False
    while rest and rest[0][:1] in ("-", "+") and rest[0] != "--":
        word = rest.pop(0)
        is_short = not word.startswith("--")
        is_text = is_text or (is_short and "c" in word)
        takes_name = is_short and ("o" in word or "O" in word)  # also among other letters: -euo pipefail
        del rest[: takes_name or word in _VALUED_BY_SHELLS]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if rest and not is_text:
        yield Started(rest[0], tuple(rest[1:]), "shell")
    elif rest:
        for command in commands(rest[0]):
            yield from (each._replace(inside=True) for each in _started(command))


def commands(text: str) -> list[list[str]]:
    """The simple commands of a shell's text, as far as words show them: without what only the running shell knows.
    Those before the place where a quotation does not end."""
    found: list[list[str]] = []
    with contextlib.suppress(ValueError):
        found.extend(_commands(text))
    return found


def _commands(text: str) -> Iterator[list[str]]:
    plain = re.sub(r"(^|\s)#[^\n]*", r"\1", text.replace("\\\n", " "))
    words = shlex.shlex(plain, posix=True, punctuation_chars=";&|()\n")
    words.whitespace, words.whitespace_split, words.commenters = " \t\r", True, ""
    found: list[str] = []
    for word in words:
        if set(word) <= set(";&|()\n"):
            yield found
            found = []
        elif found or not (word in _KEYWORDS or is_assignment(word)):
            found.append(word)
    yield found
