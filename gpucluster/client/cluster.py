"""A deployed cluster, for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gpucluster.client.job import Job
from gpucluster.client.run import Run
from gpucluster.cluster_file import nearest
from gpucluster.config import load
from gpucluster.errors import UsageError
from gpucluster.following import jobs
from gpucluster.head.arrays import JOB_ID
from gpucluster.head.remote import Remote, SshRemote
from gpucluster.layout import Layout, expand

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Cluster:
    """`Cluster.connect()`, then `submit` and `run`. Close it at the end, or use it in a `with` statement."""

    layout: Layout
    remote: Remote
    config_file: Path

    @classmethod
    def connect(cls, config_file: str | Path | None = None, *, context: str | None = None) -> Cluster:
        """Default: $GPUCLUSTER_CONFIG, or the nearest cluster.yaml in this folder or a parent folder, as for the verbs.

        `context`: a cluster of `gpucluster context` instead.

        The connection opens on first use, and again if it breaks. Raises ConfigError for an invalid file,
        NotDeployedError and other CloudErrors for a cluster that does not exist.
        """
        if context:
            return cls._of_context(context)
        from gpucluster.cluster import aws

        file = Path(config_file or os.environ.get("GPUCLUSTER_CONFIG") or nearest(Path.cwd()))
        config = load(file)
        cloud = aws.connect(config, file)
        return cls(expand(config), SshRemote(cloud.door(), find_again=cloud.door), file)

    @classmethod
    def _of_context(cls, name: str) -> Cluster:
        """Raises UsageError."""
        from gpucluster.contexts import layout, store

        chosen = store.read().get(name)
        return cls(layout.of(chosen), chosen.remote(), nearest(Path.cwd()))

    @property
    def name(self) -> str:
        return self.layout.config.name

    def submit(
        self, job: Job, *, force: bool = False, clean_state: bool = False, tell: Tell = lambda line: None
    ) -> Run:
        """A job whose task has succeeded with the same code, inputs, packages and command is skipped, and that run is
        returned; `force` runs it again, and `clean_state` deletes the task's state first. `tell` is called with
        warnings and messages about the progress. Raises JobSpecError, UsageError, CloudError."""
        from gpucluster.submission import uploads
        from gpucluster.submission.prepare import prepare
        from gpucluster.submission.submit import submit

        prepared = prepare(self.layout, job.file, job.keys)
        for warning in prepared.checked():  # may raise
            tell(f"warning: {warning}")
        packed = prepared.packed(os.environ, force=force, clean=clean_state)  # may raise
        uploads.upload(self.remote, prepared.inputs, self.name, self.config_file, tell)
        submitted = submit(self.remote, prepared.request, packed, tell)
        return Run(submitted.job_id, self.remote, skipped=bool(submitted.skipped_for))

    def run(self, job_id: str | int) -> Run:
        """A run that was submitted before, such as 12, or 12_3 for an element of an array. Raises UsageError if there
        is none."""
        if not JOB_ID.fullmatch(str(job_id)):
            wrong = f"{job_id!r} is not a job ID such as 12, or 12_3 for an element of an array"
            raise UsageError(wrong, "`gpucluster jobs` lists them")
        jobs.require(self.remote, str(job_id))
        return Run(str(job_id), self.remote)

    def runs(self, count: int = 20) -> list[Run]:
        """The newest runs, oldest first."""
        return [Run(past.job_id, self.remote) for past in jobs.past(self.remote, count)]

    def close(self) -> None:
        self.remote.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
