"""When each phase of a run began: phases.jsonl in the job's folder has a line for each, and one for the run's end.
gpucluster/following/timeline.py has the phases' meaning."""

from __future__ import annotations

import json
import time
from contextlib import suppress

from gpucluster_job.settings import Settings

END = "end"


class Phases:
    def __init__(self, settings: Settings) -> None:
        self._file = settings.folder / "phases.jsonl"
        self._run = {"job": settings.shown_id, "run": settings.runs_before}  # an element may run again as another job

    def begin(self, name: str) -> None:
        """It ends when the next one begins."""
        line = {**self._run, "name": name, "time_s": round(time.time(), 3)}
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:  # such as a full /home
            file.write(json.dumps(line) + "\n")
