"""Prepares a job without the cluster: reads and checks it, and collects everything to upload.

Used by `gpucluster submit`, also for a pipeline, by `gpucluster bench`, and by `gpucluster.Cluster.submit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucluster.errors import UsageError
from gpucluster.hardware import prices
from gpucluster.job import JobSpec, SbatchRequest, load
from gpucluster.job.command import inner_launcher, program
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
    usd_per_hour: float | None = None
    """The list price of its nodes; None: unknown, or of several types."""

    @property
    def problem(self) -> UsageError | None:
        """Why the nodes would not find the job's program."""
        try:
            return program.problem(self.spec, self.workdir, self._uploaded)
        except UsageError as error:
            return error

    def _uploaded(self) -> Sequence[Path]:
        """Raises UsageError."""
        from gpucluster.submission import snapshot

        return snapshot.listed(self.workdir) if self.workdir else []

    def doubts(self) -> tuple[str, ...]:
        """For a job that is only shown: its warnings, and the problem for which `checked` refuses it."""
        problem = self.problem
        return (*program.warnings(self.spec), *([problem.message] if problem else []))

    def checked(self, *, uploads: bool = True) -> tuple[str, ...]:
        """The warnings for its submitter. `uploads`: also those about the files of its workdir. Raises UsageError if
        the nodes would not find its program, or if nothing of the workdir would be uploaded."""
        if problem := self.problem:
            raise problem
        files = of_files(self.spec, self.workdir, self._uploaded()) if uploads and self.workdir else ()
        return (*program.warnings(self.spec), *files)

    def secrets(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The values of its secrets; none of an empty `environment`. Raises UsageError if one is not set."""
        from gpucluster.submission import submit

        return submit.secret_values(self.spec, environment) if environment else {}

    def packed(
        self, environment: Mapping[str, str], *, force: bool = False, clean: bool = False, joins: bool = False
    ) -> bytes:
        """The job's folder as a tar archive. `force`: run even if an equal run has succeeded; `clean`: start without
        the task's state; `joins`: accept an equal run that is already queued. `environment` has the values of its
        secrets; an empty one omits them. Raises UsageError."""
        from gpucluster.submission import commit, submit, task

        secrets = self.secrets(environment)
        more = task.files(self.request, self.workdir, self.packages, force=force, clean=clean, joins=joins)
        more = {**more, **submit.notices_file(self.spec, environment, self.usd_per_hour)}
        more = {**more, **commit.files(self.spec, self.workdir)}
        return submit.pack(self.request, secrets, self.workdir, self.packages, more)

    def packed_without_task(self, environment: Mapping[str, str]) -> bytes:
        """As `packed`, for a job that is no run of its task: it is never skipped, and the task keeps its state."""
        from gpucluster.submission import submit

        more = submit.notices_file(self.spec, environment, self.usd_per_hour)
        return submit.pack(self.request, self.secrets(environment), self.workdir, self.packages, more)


def prepare(layout: Layout, file: Path | None, flags: Mapping[str, Any]) -> Prepared:
    """`flags`: keys of job.yaml that override those of `file`. Raises JobSpecError, UsageError."""
    return of(layout, load(layout, file, flags), file, flags)


def of(layout: Layout, spec: JobSpec, file: Path | None, flags: Mapping[str, Any]) -> Prepared:
    """`spec`: from `load` with the other arguments. Raises UsageError."""
    spec, local = _localized(spec, file, flags, layout)
    request = SbatchRequest.from_spec(spec, layout, layout.real(folder_path(folder_name(spec))))
    workdir = program.workdir(spec, file)
    shared = ["/"] if layout.site else [each.mount for each in layout.config.storage]  # another cluster's are unknown
    packages = _packages(spec, request, file, workdir, shared)
    return Prepared(spec, request, workdir, packages, local, _usd_per_hour(spec, layout))


def _usd_per_hour(spec: JobSpec, layout: Layout) -> float | None:
    types = layout.partition(spec.partition or "").types
    usd = prices.usd(types[0].name, layout.config.region) if len(types) == 1 and not spec.elements else None
    return usd and usd * spec.nodes


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


def _packages(
    spec: JobSpec, request: SbatchRequest, file: Path | None, workdir: Path | None, shared: Sequence[str]
) -> Packages | None:
    if not spec.requirements and not spec.setup:
        return None
    from gpucluster.submission import packages

    return packages.of(spec, request.environment, file.parent if file else Path(), workdir, shared)


def of_files(spec: JobSpec, workdir: Path, uploaded: Sequence[Path]) -> tuple[str, ...]:
    """Warnings about the files that are uploaded. Raises UsageError."""
    from gpucluster.submission import snapshot

    if not uploaded and snapshot.has_files(workdir):
        raise program.all_ignored(workdir)
    found = snapshot.leading_out(workdir)
    links = (f"the link {link} points outside the workdir: only the link is uploaded" for link in found)
    return (*links, *program.not_sent(spec, workdir, uploaded), *inner_launcher.in_scripts(spec, workdir))
