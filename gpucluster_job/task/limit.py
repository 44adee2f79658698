"""`resubmit: until-done`: ends the ranks shortly before the time limit, and requeues the job.

Slurm 23.11 and 24.11 (job_mgr.c) requeue a running job for its user, count that in SLURM_RESTART_COUNT, and then
set its begin time to 121 s later (batch_requeue_fini), unless it is already in the future. While its processes end,
the job is pending and completing, and its begin time may be set. A job that Slurm is ending at its time limit may be
requeued, too (_job_requeue_op: is_completing).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from datetime import datetime
from typing import Callable

from gpucluster_job.ending import STOPPED_BY, Ending
from gpucluster_job.log import say
from gpucluster_job.settings import Settings
from gpucluster_job.task.asked import Asked

STOP_BEFORE_S = 30
"""Time for the ranks to end, for their last files to reach S3, and for the call to Slurm."""
BEGIN_AFTER_S = 20
"""Slurm must have ended the run by then on all nodes; otherwise the next one begins after its 121 s."""
ASK_TIMEOUT_S = 10
UNKNOWN_S = 3600.0
BY_SIGNAL = {128 + signal.SIGUSR1, 128 + signal.SIGUSR2, 128 + signal.SIGTERM}
"""The exit code of a rank that ended at SIGTERM."""
_ENDED_OTHERWISE = re.compile(r" JobState=(?:CANCELLED |COMPLETING Reason=(?!TimeLimit ))")
"""Slurm shows a job that it is ending as COMPLETING, whether it was cancelled or reached its limit (job_state_string),
and sets a reason only for the limit (FAIL_TIMEOUT). It would requeue a cancelled one, too (_job_requeue_op)."""


class Limit:
    def __init__(self, settings: Settings, asked: Asked) -> None:
        self._settings, self._most = settings, asked.resubmit_limit
        self._ends_at = float(os.environ.get("SLURM_JOB_END_TIME") or 0)
        self._results = settings.folder / "results"
        self.run = 1 + len(list(self._results.glob("[!.]*.json")))
        """The number of this run. A requeue after a lost node does not count as a new run."""
        self.reached = False

    def tell(self, run: int) -> str:
        """Writes the number of the run for `gpucluster jobs` and `why`, and returns it for the log."""
        words = f"run {run} of at most {self._most + 1}"
        with suppress(OSError):
            (self._settings.folder / "run.txt").write_text(f"{words}\n", encoding="utf-8")
        return words

    def tell_end(self) -> str:
        """For the log; empty if Slurm has not said it. A short limit leaves the ranks little time. Slurm rounds limits
        up to whole minutes (sbatch(1), --time)."""
        if not self._ends_at:
            return ""
        at = time.strftime("%H:%M:%S UTC", time.gmtime(self._ends_at - STOP_BEFORE_S))
        when = f"the ranks end in {max(0.0, self._left_s()):.0f} s, at {at}"
        return f"{when}: {STOP_BEFORE_S} s before the time limit, in whole minutes of Slurm"

    @property
    def has_more(self) -> bool:
        return self.run <= self._most

    def watch(self, end: Callable[[], None]) -> Callable[[], float | None]:
        """Called by a Runner when it is due; `end` ends the ranks."""

        def look() -> float | None:
            if self._left_s() <= 0:
                self._ends_at = _end_time(self._settings.shown_id) or self._ends_at  # it may have got more time
            left = self._left_s()
            if left > 0:
                return left
            self.reached = True
            say("[launcher] the time limit is near: ending the ranks")
            end()
            return None

        return look

    def _left_s(self) -> float:
        return self._ends_at - STOP_BEFORE_S - time.time() if self._ends_at else UNKNOWN_S

    def stopped(self, ending: Ending, *, warned: bool) -> bool:
        """Whether the limit ended the run. `warned`: the ranks got the job's `signal`, and may exit at it."""
        if ending.reason == "cancelled":
            return False
        return self.reached or ending.reason == STOPPED_BY["TIME LIMIT"] or (warned and ending.code in BY_SIGNAL)

    def keep(self, result: dict[str, object]) -> None:
        """Raises OSError."""
        self._results.mkdir(exist_ok=True)
        (self._results / f"{self.run}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    def unkeep(self) -> None:
        (self._results / f"{self.run}.json").unlink(missing_ok=True)

    def requeue(self) -> bool:
        """As the function."""
        if not requeue(self._settings.shown_id):
            return False
        say(f"[launcher] {self.tell(self.run + 1)} follows")
        return True


def requeue(job_id: str) -> bool:
    """Whether another run follows. Slurm ends this process soon after. job_id: Settings.shown_id, because the number of
    an array's last element is that of the whole array."""
    shown = _scontrol("--oneliner", "show", "job", job_id) or ""
    if _ENDED_OTHERWISE.search(shown):
        say("[launcher] Slurm is ending the job, but not at its time limit: no further run follows")
    elif " Requeue=0 " in shown:
        say("[launcher] the job was submitted with --no-requeue: no further run follows")
    elif _scontrol("requeue", job_id) is None:
        say("[launcher] Slurm did not requeue the job: no further run follows; submit the job again")
    else:
        _scontrol("update", f"JobId={job_id}", f"StartTime=now+{BEGIN_AFTER_S}")
        return True
    return False


def _scontrol(*words: str) -> str | None:
    """Its output; None if it failed, which is logged."""
    try:
        done = subprocess.run(
            ["scontrol", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ASK_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"[launcher] warning: scontrol {words[0]}: {error}")
        return None
    if done.returncode:
        say(f"[launcher] warning: scontrol {words[0]}: {done.stdout.strip()}")
        return None
    return done.stdout


def _end_time(job_id: str) -> float | None:
    shown = _scontrol("--oneliner", "show", "job", job_id) or ""
    match = re.search(r" EndTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d) ", shown)
    return datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S").timestamp() if match else None
