"""`gpucluster bench` on SageMaker: each run is a training job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpucluster.cli.frame import on_sagemaker
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError
from gpucluster.job import JobSpec
from gpucluster.measure import settings
from gpucluster.measure.runs import Tell
from gpucluster.measure.settings import Setting
from gpucluster.measure.training import OnSageMaker
from gpucluster.sagemaker import found, request, submission
from gpucluster.sagemaker.connection import Connection
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.prepare import Prepared, prepare
from gpucluster.sagemaker.target import Target


@dataclass(frozen=True)
class Bench:
    connection: Connection
    target: Target
    file: Path | None
    """The job.yaml."""
    given: Mapping[str, Any]
    seed: int
    jobs: dict[Setting, Prepared]

    @classmethod
    def prepare(
        cls, context: CliContext, file: Path | None, given: Mapping[str, Any], wanted: Sequence[Setting], seed: int
    ) -> Bench:
        """Raises ConfigError, JobSpecError, UsageError."""
        where = found.find(context.config_path, chosen=context.chosen)
        bench = cls(where.connect(), where.target, file, given, seed, {})
        bench.jobs.update({setting: bench.prepared(setting) for setting in wanted})
        return bench

    def prepared(self, setting: Setting) -> Prepared:
        """Without a project: no run of a task, which would be skipped, and would keep a state."""

        def adapt(spec: JobSpec) -> JobSpec:
            if spec.sweep:
                raise UsageError("a sweep cannot be compared", "remove sweep, and use --variant")
            run = settings.as_run(spec, setting, self.seed)
            name = f"{(spec.name or 'bench')[: request.NAME_LEFT - 16]}-{setting.launcher}-{setting.nodes}"
            return run.model_copy(update={"name": name, "project": None})

        flags = {key: value for key, value in settings.flags(self.given, setting).items() if key != "requeue"}
        now = datetime.now(UTC).strftime(request.STARTED_AT)
        asks = on_sagemaker.listing_of(self.connection), on_sagemaker.newest_of(self.connection)
        return prepare(self.target, self.file, flags, now, *asks, adapt)

    @property
    def metrics(self) -> Mapping[str, str]:
        return next(iter(self.jobs.values())).spec.metrics

    def checked(self) -> Iterator[str]:
        """The warnings about every job, before the first one runs. Raises UsageError."""
        return iter(dict.fromkeys(warning for job in self.jobs.values() for warning in job.checked()))

    def place(self, tell: Tell) -> OnSageMaker:
        return OnSageMaker(Account(self.target, self.connection.client), self._submitter(tell), tell)

    def _submitter(self, tell: Tell) -> Callable[[Setting], tuple[str, int]]:
        def submit(setting: Setting) -> tuple[str, int]:
            job = self.prepared(setting)  # another name, with the time
            done = submission.submit(self.connection, self.target, job, force=True, clean=False, tell=tell)
            return done.job, job.spec.nodes * request.ranks_per_node(job.spec, self.target)

        return submit
