"""Tasks that a job on SageMaker comes after. SageMaker has no dependencies: they must have succeeded on submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gpucluster.config.document import Finding
from gpucluster.job import chain
from gpucluster.job.spec import JobSpec
from gpucluster.job.task import Task
from gpucluster.sagemaker import request
from gpucluster.sagemaker.target import Target
from gpucluster.sagemaker.tasks import Run

Newest = Callable[[str, str], Run | None]
"""(project, name) -> the newest run of that task on SageMaker. Raises GpuClusterError."""


class Followed(NamedTuple):
    spec: JobSpec
    """Channels that read an output have its address in S3."""
    runs: Mapping[str, str] = {}
    """Task -> the training job whose output is read, or which came before."""
    findings: tuple[Finding, ...] = ()


def follow(spec: JobSpec, target: Target, newest: Newest) -> Followed:
    """`spec` has its project. Raises GpuClusterError."""
    findings, runs, moved = [*_unfit(spec)], dict[str, str](), {}
    for key, named in _tasks(spec):
        label = chain.label(named, spec.project)
        if label is None:
            what = f"the project of the task {named} is not known"
            findings.append(Finding(key, what, f"write PROJECT/{named}, or add a project"))
            continue
        if Task.of(spec) and label == f"{spec.project}/{spec.name}":
            what = f"the job is itself a run of {label} and would wait for itself"
            findings.append(Finding(key, what, "name another task"))
            continue
        project, _, name = label.partition("/")
        last = newest(project, name)
        if why := _refusal(label, last):
            findings.append(Finding(key, *why))
        elif last:
            runs[label] = last.job
            if key[0] == "channels":
                channel = spec.channels[str(key[1])]
                source = f"{request.outputs(last.state)}/{channel.output}"
                moved[str(key[1])] = channel.model_copy(update={"task": label, "source": source})
    return Followed(spec.model_copy(update={"channels": {**spec.channels, **moved}}), runs, tuple(findings))


def _tasks(spec: JobSpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name, channel in spec.channels.items():
        if channel.task:
            yield ("channels", name, "task"), channel.task
    yield from ((("after", index), named) for index, named in enumerate(spec.after) if not named.isdigit())


def _refusal(label: str, last: Run | None) -> tuple[str, str] | None:
    if last is None:
        return f"the task {label} has no run on SageMaker", "submit it there first: --on sagemaker"
    if not last.ended:
        what = f"job {last.job} of the task {label} has not ended, and SageMaker has no dependencies"
        return what, f"submit this job when it has; `gpucluster logs -f {last.job}` follows it"
    if not last.succeeded:
        what = f"the task {label} has not succeeded: job {last.job} is {last.status}"
        return what, f"`gpucluster why {last.job}` says why; submit it again first"
    return None


def _unfit(spec: JobSpec) -> Iterator[Finding]:
    for index, named in enumerate(spec.after):
        if named.isdigit():
            yield Finding(("after", index), f"{named} is a job of Slurm's, got for SageMaker", "name a task")
    for name, folder in spec.outputs.items():
        if folder:
            what = f"an output on SageMaker lies with the task's state in S3, got {folder}"
            yield Finding(("outputs", name), what, f"write outputs: [{name}]")
    if spec.outputs and not spec.project:
        hint = "add a name, such as --name prepare"
        yield Finding(("outputs",), "belong to a task, and the job has no name", hint)
