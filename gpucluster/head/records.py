"""The mark at the beginning of each record of squeue.

Slurm prints a job's name as its user wrote it, with separators and line breaks, which could forge the rows of other
jobs. No user can know the mark: the head node makes it for each call and prints it first. squeue gets it in its
environment, because everybody reads a process's arguments (proc(5)). sinfo needs none: only root and Slurm's user write
the reasons of nodes, and our programs write them without line breaks.
"""

from __future__ import annotations

import re

MARKS = True
"""False: of recorded output, without marks."""
MAKE_MARK = "mark=$(od -An -N8 -tx8 /dev/urandom) || exit; mark=${mark# }; echo \"$mark\"; mark=$mark'|'\n"
_MARKED = f"""
{MAKE_MARK}
unset SQUEUE_FORMAT2
export SQUEUE_FORMAT="$mark$1"
shift
exec "$@"
"""


def marked(argv: list[str], fields: str) -> list[str]:
    """`argv`: squeue without a format; `fields`: its format."""
    return ["sh", "-c", _MARKED, "sh", fields, *argv] if MARKS else argv


def split(text: str) -> list[str]:
    """What stands between two marks at the beginning of a line. A name's own line breaks stay in it."""
    if not MARKS:
        return [line for line in text.split("\n") if line]
    mark, _, rest = text.partition("\n")
    _, *found = re.split(f"^{re.escape(mark)}\\|", rest, flags=re.MULTILINE)
    return [record.removesuffix("\n") for record in found]
