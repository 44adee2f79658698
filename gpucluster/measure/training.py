"""Runs of a benchmark as training jobs on SageMaker."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from gpucluster.errors import GpuClusterError
from gpucluster.following.jobs import Ending
from gpucluster.following.patience import Patience
from gpucluster.measure.runs import Tell
from gpucluster.measure.settings import Setting
from gpucluster.sagemaker.following import ending, jobs, logs
from gpucluster.sagemaker.following.account import Account


class OnSageMaker:
    """A `runs.Place`. `submit` returns the training job's name and its number of ranks."""

    def __init__(
        self,
        account: Account,
        submit: Callable[[Setting], tuple[str, int]],
        tell: Tell,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.submit = submit
        self._account, self._tell, self._pause = account, tell, pause

    def awaited(self, job_id: str) -> Ending:
        patience, doing = Patience(job_id, self._tell, self._pause, "AWS"), ""
        while not (job := patience.ask(lambda: jobs.describe(self._account, job_id))).ended:
            doing = logs.told(job, doing, self._tell)
            self._pause(logs.pause_s())
        self._pause(logs.POLL_S)  # the last lines come late
        return patience.ask(lambda: ending.of(self._account, job))

    def cancel(self, job_id: str) -> None:
        with suppress(GpuClusterError):
            jobs.stop(self._account, job_id)
