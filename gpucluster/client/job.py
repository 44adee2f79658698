"""A job that a program submits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """Keys of job.yaml: `Job(command=["python", "train.py"], nodes=2, time="1:00:00")`. docs/jobs.md lists all.

    A file can have them too, and keys override it: `Job.from_file("job.yaml", nodes=4)`. The keys are checked when
    the job is submitted, because they must fit the cluster.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None

    def __init__(self, **keys: Any) -> None:
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "file", None)

    @classmethod
    def from_file(cls, file: str | Path, **keys: Any) -> Job:
        job = cls(**keys)
        object.__setattr__(job, "file", Path(file))
        return job
