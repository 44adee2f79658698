"""The end of each record of squeue that has text of users, such as a script's path.

squeue prints the text as its user wrote it, with line breaks, which could forge records of other users' jobs. No user
can know this end: it is new in each process, and neither arguments nor messages have it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

END = secrets.token_hex(8)
_VARIABLES = {"--format": "SQUEUE_FORMAT", "--Format": "SQUEUE_FORMAT2"}


def split(text: str) -> list[str]:
    """What stands before each END at the end of a line."""
    return text.split(f"{END}\n")


def hidden(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command without a format that has END, and the variable that has the format instead. Everybody reads a
    process's arguments, but only its user and root read its environment (proc(5)). squeue takes the variable if no
    option has a format (src/squeue/opts.c: parse_command_line)."""
    formats = [word for word in argv if END in word and word.partition("=")[0] in _VARIABLES]
    parts = (word.partition("=") for word in formats)
    return [word for word in argv if word not in formats], {_VARIABLES[name]: value for name, _, value in parts}
