"""Recorded output of real commands: as text for parsers, and as shell for stubs of the commands."""

from __future__ import annotations

import importlib.util
import shlex

from localcloud.machines.image import GUEST_FILES

RECORDS = GUEST_FILES / "usr/share/records"
PROGRAM = GUEST_FILES / "usr/lib/localcloud/records.py"

_spec = importlib.util.spec_from_file_location("records", PROGRAM)
assert _spec and _spec.loader
_records = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_records)


def record(name: str, /, **fields: str) -> str:
    """The command's output, with other words in the record's fields."""
    text: str = _records.Record(name).fill(**fields)
    return text


def recorded(name: str, /, **fields: str) -> str:
    """The shell command that prints the output."""
    return shlex.join(["/usr/bin/python3", "-I", str(PROGRAM), name, *(f"{key}={fields[key]}" for key in fields)])


def recorded_line(name: str, start: str) -> str:
    """The shell command that prints the record's first line with that beginning."""
    return shlex.join(["/usr/bin/python3", "-I", str(PROGRAM), "--line", name, start])
