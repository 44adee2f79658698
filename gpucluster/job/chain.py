"""The runs that a job waits for and the outputs that it has: `after`, channels that read a task's output, `outputs`.

Only the head node knows which tasks and jobs exist, and which of their runs to wait for: it checks before it queues
the job (gpucluster_job/chain.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpucluster import account
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job import channels
from gpucluster.job import task as tasks
from gpucluster.job.spec import Channel, JobSpec
from gpucluster.layout import Real, as_it_is

VARIABLE = "GPUCLUSTER_OUTPUT_"
_WAIT = r"(\d+) (queued|done) (.+)"


class Wait(NamedTuple):
    """A run that a job depends on: one line of the file `waits` in the job's folder."""

    job_id: str
    queued: bool
    """The run had not ended when the job was submitted, so Slurm waits for it."""
    what: str
    """the task demo/prepare, or job 12"""

    @property
    def description(self) -> str:
        return self.what if self.what == f"job {self.job_id}" else f"{self.what}, job {self.job_id}"


def parse_waits(text: str) -> tuple[Wait, ...]:
    found = filter(None, (re.fullmatch(_WAIT, line) for line in text.splitlines()))
    return tuple(dict.fromkeys(Wait(each[1], each[2] == "queued", each[3]) for each in found))


def label(name: str, project: str | None) -> str | None:
    """PROJECT/NAME of a task that is given so, or as NAME within its project."""
    return name if "/" in name else f"{project}/{name}" if project else None


def complete(spec: JobSpec, real: Real = as_it_is) -> JobSpec:
    """Fills in the folders of the outputs that the channels read. `spec` has its project."""
    read = {name: channel for name, channel in spec.channels.items() if channel.task}
    found = {name: _completed(channel, spec.project, real) for name, channel in read.items()}
    return spec.model_copy(update={"channels": {**spec.channels, **found}}) if found else spec


def _completed(channel: Channel, project: str | None, real: Real) -> Channel:
    """Keeps a task name that cannot be resolved: `check` reports it."""
    named = label(channel.task or "", project) or channel.task
    folder = real(f"{account.tasks()}/{named}/outputs/{channel.output}")
    return channel.model_copy(update={"task": named, "source": folder})


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    if spec.outputs and not spec.project:
        yield Finding(("outputs",), "belong to a task, and the job has no name", "add a name, such as --name prepare")
    for name, folder in spec.outputs.items():
        if folder and (problem := channels.not_shared(folder, config)):
            yield Finding(("outputs", name), problem, "name a folder there")
    for key, named in _tasks(spec):
        yield from _named(key, named, spec)


def _named(key: tuple[str | int, ...], named: str, spec: JobSpec) -> Iterator[Finding]:
    whole = label(named, spec.project)
    if whole is None:
        yield Finding(key, f"the project of the task {named} is not known", f"write PROJECT/{named}, or add a project")
    elif spec.project and whole == f"{spec.project}/{spec.name}":
        yield Finding(key, f"the job is itself a run of {whole} and would wait for itself", "name another task")


def _tasks(spec: JobSpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name, channel in spec.channels.items():
        if channel.task:
            yield ("channels", name, "task"), channel.task
    for index, named in enumerate(spec.after):
        if not named.isdigit():
            yield ("after", index), named


def waits_for(spec: JobSpec) -> tuple[str, ...]:
    """The labels of the tasks that the job waits for."""
    return tuple(dict.fromkeys(filter(None, (label(named, spec.project) for _, named in _tasks(spec)))))


def folders(spec: JobSpec, real: Real = as_it_is) -> Mapping[str, str]:
    """The folders of its outputs, by name."""
    task = tasks.Task.of(spec)
    if task is None:
        return {}
    return {name: folder or real(f"{task.folder}/outputs/{name}") for name, folder in spec.outputs.items()}


def variables(spec: JobSpec, real: Real = as_it_is) -> Mapping[str, str]:
    return {f"{VARIABLE}{name.upper()}": folder for name, folder in folders(spec, real).items()}


def mounts(spec: JobSpec, real: Real = as_it_is) -> tuple[str, ...]:
    """The mounts of a job's container."""
    return tuple(f"{folder}:{folder}" for folder in folders(spec, real).values())


def files(spec: JobSpec, real: Real = as_it_is) -> dict[str, str]:
    """The file that the head node's checks read before the job is queued."""
    waits: list[dict[str, Any]] = [
        {"key": f"channels.{name}", "label": channel.task, "output": channel.output}
        for name, channel in spec.channels.items()
        if channel.task
    ]
    for named in spec.after:
        waits.append(
            {"key": "after"} | ({"job_id": named} if named.isdigit() else {"label": label(named, spec.project)})
        )
    if not waits and not spec.outputs:
        return {}
    import json

    task = tasks.Task.of(spec)
    folder = real(task.folder) if task else ""
    asked = {"tasks": real(account.tasks()), "folder": folder, "waits": waits, "outputs": dict(spec.outputs)}
    return {"chain.json": json.dumps(asked, indent=2) + "\n"}
