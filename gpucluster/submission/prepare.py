"""Prepares a job without the cluster: reads and checks it, and collects everything to upload.

Used by `gpucluster submit` and `gpucluster.Cluster.submit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucluster.job import JobSpec, SbatchRequest, load, program
from gpucluster.job.script import folder_name, folder_path
from gpucluster.layout import Layout

if TYPE_CHECKING:
    from gpucluster.submission.inputs import Input
    from gpucluster.submission.packages import Packages


class Prepared(NamedTuple):
    spec: JobSpec
    request: SbatchRequest
    workdir: Path | None
    packages: Packages | None
    inputs: tuple[Input, ...]
    """Local folders that channels name."""

    def packed(
        self, environment: Mapping[str, str], *, force: bool = False, clean: bool = False, joins: bool = False
    ) -> bytes:
        """The job's folder as a tar archive. `force`: run even if an equal run has succeeded; `clean`: start without
        the task's state; `joins`: accept an equal run that is already queued. `environment` has the values of its
        secrets; an empty one omits them. Raises UsageError."""
        from gpucluster.submission import submit, task

        secrets = submit.secret_values(self.spec, environment) if environment else {}
        more = task.files(self.request, self.workdir, self.packages, force=force, clean=clean, joins=joins)
        return submit.pack(self.request, secrets, self.workdir, self.packages, more)


def prepare(layout: Layout, file: Path | None, flags: Mapping[str, Any]) -> Prepared:
    """`flags`: keys of job.yaml that override those of `file`. Raises JobSpecError, UsageError."""
    return of(layout, load(layout, file, flags), file, flags)


def of(layout: Layout, spec: JobSpec, file: Path | None, flags: Mapping[str, Any]) -> Prepared:
    """`spec` is what `load` returned for the other arguments. Raises UsageError."""
    spec, local = _localized(spec, file, flags, layout)
    request = SbatchRequest.from_spec(spec, layout, layout.real(folder_path(folder_name(spec))))
    workdir = program.workdir(spec, file)
    return Prepared(spec, request, workdir, _packages(spec, request, file, workdir), local)


def _localized(
    spec: JobSpec, file: Path | None, flags: Mapping[str, Any], layout: Layout
) -> tuple[JobSpec, tuple[Input, ...]]:
    """A local folder is relative to the current directory in a flag, and to job.yaml in the file."""
    if not any(channel.is_local for channel in spec.channels.values()):
        return spec, ()
    from gpucluster.submission import inputs

    there = file.parent if file else Path()
    typed = flags.get("channels") or ()
    return inputs.localized(spec, {name: Path() if name in typed else there for name in spec.channels}, layout.real)


def _packages(spec: JobSpec, request: SbatchRequest, file: Path | None, workdir: Path | None) -> Packages | None:
    if not spec.requirements and not spec.setup:
        return None
    from gpucluster.submission import packages

    return packages.of(spec, request.environment, file.parent if file else Path(), workdir)
