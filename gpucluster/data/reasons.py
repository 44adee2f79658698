"""Why the jobs of `gpucluster data shard --array` failed, in one line: `python -m gpucluster.data.reasons OUTPUT...`

An error is a line that begins with "error: ", and the indented lines after it. Parts that refuse files of the same data
set become one error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

BEGIN = "error: "
_REFUSAL = re.compile(r"(.*): ([0-9]+) files? cannot be packed:")
"""`_refusal` of run.py."""


def errors(output: str) -> list[list[str]]:
    """Each as its lines."""
    found: list[list[str]] = []
    inside = False
    for line in output.splitlines():
        if line.startswith(BEGIN):
            found.append([line[len(BEGIN) :]])
        elif inside and line.startswith("  "):
            found[-1].append(line.strip())
        inside = line.startswith(BEGIN) or (inside and line.startswith("  "))
    return found


def reason(outputs: Iterable[str]) -> str:
    """Empty if no output has an error."""
    refused: dict[str, tuple[int, list[str]]] = {}
    others: dict[str, None] = {}
    for first, *more in (error for output in outputs for error in errors(output)):
        if match := _REFUSAL.fullmatch(first):
            count, files = refused.get(match[1], (0, []))
            refused[match[1]] = (count + int(match[2]), [*files, *more])
        else:
            others[" ".join([first, "; ".join(more)]).strip()] = None
    said = [_joined(source, count, files) for source, (count, files) in refused.items()]
    return "; ".join([*said, *others])


def _joined(source: str, count: int, files: list[str]) -> str:
    return f"{source}: {count} file{'s' * (count > 1)} cannot be packed: {'; '.join(files)}"


def main(paths: list[str]) -> int:
    """The last path is the output of the last job: the error of a part explains more than its message that shards are
    missing."""
    outputs = [path.read_text(encoding="utf-8", errors="replace") if path.exists() else "" for path in map(Path, paths)]
    last_line = outputs[-1].rstrip().rpartition("\n")[2]
    print(reason(outputs[:-1]) or reason(outputs[-1:]) or last_line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
