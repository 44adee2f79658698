"""Reads the variables that a file of shell commands exports, without a shell."""

from __future__ import annotations

import os
import shlex
from typing import Iterator


def assignments(path: str) -> Iterator[tuple[str, str]]:
    """The variables of a file of `export NAME=VALUE` commands. A command may have a condition that the variable is not
    set yet."""
    try:
        with open(path, "rb") as file:
            text = os.fsdecode(file.read())  # reading as text would drop carriage returns
    except OSError:
        return
    words = iter(shlex.split(text))
    for word in words:
        if word == "export":
            name, _, value = next(words).partition("=")
            yield name, value
