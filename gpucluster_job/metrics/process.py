"""The process that reads the job's metrics, and how long the job waits for its answer."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress

from gpucluster_job import ourselves
from gpucluster_job.log import say
from gpucluster_job.settings import Settings

LOGGED = "GPUCLUSTER_METRICS"
"""The folder where gpucluster_train/log.py writes."""
LIMIT_S = 10.0
BYTES_PER_S = 2_000_000
"""How long the rest may take at the end of the job: more for a large log. Mostly it has been read while the job ran."""
OF_A_STOPPED_JOB_S = 2.0
"""Slurm soon kills a stopped job, and the result comes after the metrics."""
ANSWER_S = 2.0
"""How long its answer may come after its limit."""


class Metrics:
    def __init__(self, settings: Settings, log_start: int) -> None:
        self._settings, self._log_start = settings, log_start
        self._expressions = settings.folder / "metrics.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = self._settings
        # An element that runs again is another job; a job that Slurm requeues is another run.
        logged = f"{settings.folder}/metrics/{settings.job_id}.{settings.runs_before}"
        with suppress(OSError):  # such as a full /home: the ranks then log nothing
            os.makedirs(logged, exist_ok=True)
        os.environ[LOGGED] = logged
        files = [str(self._expressions), str(settings.log), str(self._log_start), logged]
        argv = ourselves.words("metrics", *files, str(settings.world_size), str(settings.runs_before))
        with suppress(OSError):
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def result(self, *, stopped: bool) -> dict[str, object]:
        """The field `metrics` of result.json."""
        limit_s = limit_of(self._settings, stopped=stopped)
        try:
            found = self._answer(limit_s)
        except subprocess.TimeoutExpired:
            why = f"the program that reads them did not end within {limit_s:.0f} s"
        except (OSError, ValueError) as error:
            why = str(error)
        else:
            return {"metrics": found} if found else {}
        if not self._expressions.exists():
            return {}
        say(f"warning: the metrics could not be read from the log: {why}")
        return {"metrics": None}

    def _answer(self, limit_s: float) -> dict[str, object]:
        """Raises OSError, ValueError or subprocess.TimeoutExpired."""
        if not self._process:
            raise OSError("the program that reads them did not start")
        try:
            answer, _ = self._process.communicate(f"{limit_s}\n".encode(), timeout=limit_s + ANSWER_S)
        finally:
            self._process.kill()
        if self._process.returncode:
            raise OSError(f"the program that reads them exited with code {self._process.returncode}")
        found: dict[str, object] = json.loads(answer)
        return found


def limit_of(settings: Settings, *, stopped: bool) -> float:
    if stopped:
        return OF_A_STOPPED_JOB_S
    try:
        return LIMIT_S + settings.log.stat().st_size / BYTES_PER_S
    except OSError:
        return LIMIT_S
