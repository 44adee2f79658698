"""Why a program that is there could not be executed: the kernel reports a missing interpreter of a script as if the
script were missing (execve(2), ENOENT)."""

from __future__ import annotations

import os
import shutil

LONGEST = 200


def why_not(program: str, path: str | None, error: OSError) -> str:
    """`path`: the variable PATH of the program."""
    line = first_line(shutil.which(program, path=path) or program)
    missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
    words = line[len(b"#!") :].split(b" ") if line.startswith(b"#!") else []
    interpreter = next((each.strip(b"\t") for each in words if each.strip(b"\t")), b"")
    if not interpreter or not (missing or (os.path.isfile(interpreter) and not os.access(interpreter, os.X_OK))):
        return "not found" if missing else os.strerror(error.errno or 0)
    what = f"its first line {line.decode(errors='replace')!r} names an interpreter that"
    if not missing:
        return f"{what} cannot be executed: {os.strerror(error.errno or 0)}"
    if line.endswith(b"\r"):
        why = r"its lines end with \r\n as on Windows; convert it, for example with dos2unix"
        return f"{what} does not exist: {why}"
    return f"{what} does not exist on this node"


def first_line(script: str) -> bytes:
    """Empty if it cannot be read."""
    try:
        with open(script, "rb") as file:
            return file.readline(LONGEST).rstrip(b"\n")
    except OSError:
        return b""
