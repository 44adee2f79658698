"""A job script's staging requests: its #BB_LUA lines, which Slurm's burst buffer reads.

#BB_LUA stage_in path=/fsx/imagenet    loaded from S3 before the job has nodes
#BB_LUA stage_out path=/fsx/runs       exported to S3 after its end
#BB_LUA use path=/fsx                  a file system with `lifetime: jobs`
#BB_LUA folder path=/home/…/jobs/NAME  where the results of both are written
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
        """Whether any of its paths is there."""
        return any(
            path == mount or path.startswith(f"{mount}/") for path in (*self.use, *self.stage_in, *self.stage_out)
        )


def parse(script: str) -> Directives:
    """In the comments at the start of the script, as Slurm reads them."""
    found: dict[str, list[str]] = {"stage_in": [], "stage_out": [], "use": [], "folder": []}
    for line in (each.rstrip() for each in script.split("\n")):
        if line and not line.startswith("#"):
            break
        if match := _LINE.fullmatch(line):
            found[match[1]].append(match[2])
    stage_in, stage_out, use = (tuple(dict.fromkeys(found[word])) for word in ("stage_in", "stage_out", "use"))
    return Directives(stage_in, stage_out, next(iter(found["folder"]), None), use)
