"""Variables that a file of shell commands sets, without a shell."""

from __future__ import annotations

import os
import shlex
from typing import Iterator


def assignments(path: str) -> Iterator[tuple[str, str]]:
    """Of a file whose commands are `export NAME=VALUE`, perhaps behind a condition that the name has no value yet."""
    try:
        with open(path, "rb") as file:
            text = os.fsdecode(file.read())  # as it is: text files lose their carriage returns
    except OSError:
        return
    words = iter(shlex.split(text))
    for word in words:
        if word == "export":
            name, _, value = next(words).partition("=")
            yield name, value
