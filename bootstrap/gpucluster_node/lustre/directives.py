"""What a job script asks to have staged: its #BB_LUA lines, which Slurm's burst buffer goes by.

#BB_LUA stage_in path=/fsx/imagenet    loaded from S3 before the job has nodes
#BB_LUA stage_out path=/fsx/runs       back in S3 after its end
#BB_LUA use path=/fsx                  a file system that exists while jobs use it
#BB_LUA folder path=/home/…/jobs/NAME  where it is told what came of both
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"#BB_LUA\s+(stage_in|stage_out|use|folder) path=(/.*)")


@dataclass(frozen=True)
class Directives:
    stage_in: tuple[str, ...] = ()
    stage_out: tuple[str, ...] = ()
    folder: str | None = None
    use: tuple[str, ...] = ()

    def names(self, mount: str) -> bool:
        """Whether anything of it lies there."""
        return any(
            path == mount or path.startswith(f"{mount}/") for path in (*self.use, *self.stage_in, *self.stage_out)
        )


def parse(script: str) -> Directives:
    """Of the comments that the script begins with, as Slurm reads them."""
    found: dict[str, list[str]] = {"stage_in": [], "stage_out": [], "use": [], "folder": []}
    for line in (each.rstrip() for each in script.split("\n")):
        if line and not line.startswith("#"):
            break
        if match := _LINE.fullmatch(line):
            found[match[1]].append(match[2])
    stage_in, stage_out, use = (tuple(dict.fromkeys(found[word])) for word in ("stage_in", "stage_out", "use"))
    return Directives(stage_in, stage_out, next(iter(found["folder"]), None), use)
