"""Prepares a job for SageMaker: reads and checks it, counts the objects of its channels, and makes the request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpucluster.addresses import in_s3
from gpucluster.config.document import Document, Finding
from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.job import JobSpec, sameness, task
from gpucluster.job.checks import default_name, elements
from gpucluster.job.command import program
from gpucluster.job.load import fitted, read
from gpucluster.launchers import LAUNCHERS
from gpucluster.sagemaker import channels, keys, local_folders, request
from gpucluster.sagemaker.chains import Followed, Newest, follow
from gpucluster.sagemaker.listing import Listed
from gpucluster.sagemaker.target import Target
from gpucluster.submission import inputs, requirements, snapshot
from gpucluster.submission import prepare as submission
from gpucluster.submission.task import code_key

DEFAULT_FRAMEWORK = "torch"
_SECRET = re.compile(r"\.env(\.local)?|\.netrc|credentials|id_(rsa|ecdsa|ed25519)|.+\.pem")
"""Names of files that usually have secrets."""
List = Callable[[str, bool], Listed]
"""(address in S3, whether all objects are needed) -> its objects. Raises GpuClusterError."""


class Prepared(NamedTuple):
    spec: JobSpec
    request: Mapping[str, Any]
    planned: channels.Planned
    notes: tuple[str, ...]
    """What its submitter should know."""
    workdir: Path | None
    """The folder that is uploaded."""
    inputs: tuple[inputs.Input, ...]
    """Local folders that channels name."""
    requirements: str
    """For pip on each host; empty: none."""
    key: str
    """For a run of a task: two runs with the same key are equal. Empty: no run of a task."""

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    def checked(self) -> tuple[str, ...]:
        """The warnings for its submitter. Raises UsageError if its program would not be found."""
        workdir, uploaded = self.workdir, snapshot.listed(self.workdir) if self.workdir else []
        if problem := program.problem(self.spec, workdir, lambda: uploaded):
            raise problem
        files = submission.of_files(self.spec, workdir, uploaded) if workdir else ()
        return (*self.notes, *files, *self._secrets(uploaded))

    def _secrets(self, uploaded: Iterable[Path]) -> Iterator[str]:
        if found := [str(path) for path in uploaded if _SECRET.fullmatch(path.name)]:
            where = self.request["OutputDataConfig"]["S3OutputPath"]
            yield (
                f"{', '.join(found)}: everybody who may read {where} can read what is uploaded: keep secrets out of "
                "the workdir, or let git ignore them"
            )


def prepare(
    target: Target,
    file: Path | None,
    flags: Mapping[str, Any],
    started: str,
    listing: List,
    newest: Newest,
    adapt: Callable[[JobSpec], JobSpec] = lambda spec: spec,
) -> Prepared:
    """`flags`: keys of job.yaml that override those of `file`. `adapt`: a last change of the completed spec. Raises
    JobSpecError with every problem, UsageError."""
    made: list[Prepared] = []

    def fit(spec: JobSpec, base: Path) -> tuple[JobSpec, list[Finding]]:
        moved, local = _localized(adapt(complete(spec, base)), file, flags, target)
        followed = follow(moved, target, newest)
        completed = followed.spec
        found = [*elements(spec), *keys.check(completed), *request.check(completed, target), *program.check(completed)]
        found += followed.findings
        listed = _listed(completed, target, listing, local)
        size = channels.Size(spec.nodes, request.ranks_per_node(completed, target))
        name = request.job_name(completed, started)
        planned = channels.plan(completed, target, listed, size, request.place(target, name))
        found += planned.findings
        if not found:
            workdir = program.workdir(completed, file)
            packages = _packages(completed, base, workdir)
            key = _key(followed, target, workdir, packages) if task.Task.of(completed) else ""
            asked = request.build(completed, target, name, planned, key)
            found += request.refusals(asked)
            notes = tuple(_notes(completed, target, listed))
            made.append(Prepared(completed, asked, planned, notes, workdir, local, packages, key))
        return completed, found

    document = read(file) if file else Document("the command line")
    fitted(document, dict(flags), fit)
    return made[-1]


def complete(spec: JobSpec, base: Path) -> JobSpec:
    """The spec with every default that SageMaker needs."""
    usual = LAUNCHERS[spec.launcher].frameworks if spec.launcher in LAUNCHERS else ()
    completed = {
        "name": spec.name or default_name(spec),
        "project": task.project_of(spec, base),
        "framework": spec.framework or (usual or (DEFAULT_FRAMEWORK,))[0],
    }
    return spec.model_copy(update=completed)


def _localized(
    spec: JobSpec, file: Path | None, flags: Mapping[str, Any], target: Target
) -> tuple[JobSpec, tuple[inputs.Input, ...]]:
    """A local folder is relative to the current directory in a flag, and to job.yaml in the file. Raises UsageError."""
    there, typed = file.parent if file else Path(), flags.get("channels") or ()
    bases = {name: Path() if name in typed else there for name in spec.channels}
    return inputs.localized(spec, bases, lambda _: local_folders.place(target))


def _packages(spec: JobSpec, base: Path, workdir: Path | None) -> str:
    """Raises UsageError."""
    asked = requirements.lines(spec.requirements, base)
    for line in asked:
        if line.path and not (workdir and not line.path.startswith("/") and (workdir / line.path).exists()):
            what = f"{line.place}: no file {line.path} in the workdir {workdir}, and SageMaker gets no other files"
            raise UsageError(what, "give its path relative to the workdir")
    return "".join(f"{line.text}\n" for line in asked)


def _key(followed: Followed, target: Target, workdir: Path | None, packages: str) -> str:
    more = {"code": code_key(workdir) if workdir else "", "packages": packages, "toolkit": target.toolkit}
    return sameness.key(followed.spec, {**more, "runs": followed.runs, "image": target.image or ""})


def _listed(spec: JobSpec, target: Target, listing: List, local: tuple[inputs.Input, ...]) -> dict[str, Listed | str]:
    """The objects of each channel in S3, or why they could not be listed."""
    found, coming = dict[str, Listed | str](), {each.target: local_folders.listed(each) for each in local}
    for name, channel in spec.channels.items():
        if channel.source in coming:
            found[name] = coming[channel.source]
        if not in_s3(channel.source) or channel.source in coming:
            continue
        choice = target.channels.get(name)
        try:
            found[name] = listing(channel.source, bool(choice and choice.mode == "Pipe"))
        except GpuClusterError as error:
            found[name] = error.message
    return found


def _notes(spec: JobSpec, target: Target, listed: Mapping[str, Listed | str]) -> Iterator[str]:
    yield from keys.notes(spec)
    for name in program.secrets(spec):
        yield f"env: {name}: DescribeTrainingJob shows its value to others: let the program read Secrets Manager"
    if target.toolkit:
        yield "toolkit: AWS's toolkit starts the ranks, so gpucluster_train is not there, and ranks have no prefix"
    if spec.requirements:
        yield "requirements: pip installs them on each host at each start, which needs the package index then"
    if not spec.time:
        yield "no time: SageMaker stops the job after 1 day; time may be up to 28 days"
    if target.spot and not spec.project:
        yield "no name: a spot job that is interrupted starts over, because only a job with a name keeps state"
    for name, found in listed.items():
        if isinstance(found, str):
            yield f"the objects of channel {name} were not counted: {found}"
    if others := sorted(target.channels.keys() - spec.channels.keys()):
        yield f"channels of sagemaker.yaml that this job does not have: {', '.join(others)}"
