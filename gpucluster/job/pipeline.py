"""pipeline.yaml: several jobs that are submitted together, each after the jobs that it waits for.

project: digits
defaults: {partition: train}          # keys that a job leaves out
jobs:
  prepare: {command: [python, prepare.py], outputs: [shards]}
  train: {file: train/job.yaml}       # a job.yaml as it is
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from gpucluster.config.document import Document, Finding
from gpucluster.config.document import Path as KeyPath
from gpucluster.errors import JobSpecError, Notice
from gpucluster.job.chain import waits_for
from gpucluster.job.load import loads, read
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Layout
from gpucluster.meant import did_you_mean

KEYS = ("project", "defaults", "jobs")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Step:
    spec: JobSpec
    file: Path
    """The file whose folder the step's paths are relative to."""
    after: tuple[str, ...]
    """Names of the steps that it waits for."""

    @property
    def name(self) -> str:
        return self.spec.name or ""


@dataclass(frozen=True)
class Pipeline:
    project: str
    steps: tuple[Step, ...]
    """Each step stands after all that it waits for."""


def load(layout: Layout, path: Path) -> Pipeline:
    """Raises JobSpecError."""
    document = read(path)
    _refuse(document, _shape(document))
    data = document.data
    project = data["project"]
    specs: dict[str, tuple[JobSpec, Path]] = {}
    problems: list[Notice] = []
    for name in data["jobs"]:
        try:
            specs[name] = _step(layout, document, name, project, path)
        except JobSpecError as error:
            problems += error.problems
    if problems:
        raise JobSpecError(list(dict.fromkeys(problems)))  # problems of the defaults, once
    _refuse(document, _references({name: spec for name, (spec, _) in specs.items()}, project))
    before = {name: _before(spec, specs, project) for name, (spec, _) in specs.items()}
    if circle := _circle(before):
        problem = f"the jobs wait for each other in a circle: {' → '.join(circle)}"
        _refuse(document, [Finding(("jobs", circle[0]), problem, "remove one of these dependencies", at="key")])
    return Pipeline(project, tuple(Step(*specs[name], before[name]) for name in _ordered(before)))


def _refuse(document: Document, findings: Iterator[Finding] | Sequence[Finding]) -> None:
    problems = [*document.problems, *map(document.notice, findings)]
    if problems:
        raise JobSpecError(problems)


def _shape(document: Document) -> Iterator[Finding]:
    data = document.data
    if not isinstance(data, dict):
        yield Finding((), "must be a section of `key: value` lines")
        return
    for key in data:
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS, "put keys of all jobs under `defaults`")
            yield Finding((key,), "unknown key", hint, at="key")
    if "project" not in data:
        yield Finding(("project",), "this key is required: a name that its jobs share")
    elif not isinstance(data["project"], str) or not _NAME.fullmatch(data["project"]):
        yield Finding(("project",), "must be a name: up to 64 letters, digits, dots, hyphens and underscores")
    if not isinstance(data.get("defaults", {}), dict):
        yield Finding(("defaults",), "must be a section of `key: value` lines")
    jobs = data.get("jobs")
    if not isinstance(jobs, dict) or not jobs:
        yield Finding(("jobs",), "must be a section of jobs", "such as `prepare: {command: [python, prepare.py]}`")
        return
    for name, job in jobs.items():
        yield from _job_shape(name, job)


def _job_shape(name: Any, job: Any) -> Iterator[Finding]:
    if not _NAME.fullmatch(str(name)):
        yield Finding(("jobs", name), "must be a name: up to 64 letters, digits, dots, hyphens, underscores", at="key")
    if not isinstance(job, dict):
        yield Finding(("jobs", name), "must be a section of `key: value` lines")
        return
    for key in ("name", "project"):
        if key in job:
            yield Finding(("jobs", name, key), "the pipeline sets this key", "remove it", at="key")
    if "file" in job and (len(job) > 1 or not isinstance(job["file"], str)):
        yield Finding(
            ("jobs", name, "file"),
            "must be the path of a job.yaml, and the only key",
            "write the other keys in that file",
        )


def _step(layout: Layout, document: Document, name: str, project: str, path: Path) -> tuple[JobSpec, Path]:
    """Raises JobSpecError."""
    job, defaults = document.data["jobs"][name], document.data.get("defaults", {})
    file = path.parent / job["file"] if "file" in job else path
    part = read(file) if "file" in job else _part(document, ("jobs", name))
    if isinstance(part.data, dict):
        part = part._replace(data={**defaults, **part.data})
    return loads(layout, part, {"name": name, "project": project}), file


def _part(document: Document, section: KeyPath) -> Document:
    """One section as if it were the file, with the lines of its keys. Defaults keep their own lines."""
    values, keys = (
        _below(positions, ("defaults",)) | _below(positions, section) for positions in (document.values, document.keys)
    )
    data = document.data
    for key in section:
        data = data[key]
    return document._replace(data=data, values=values, keys=keys)


def _below(positions: Mapping[KeyPath, Any], section: KeyPath) -> dict[KeyPath, Any]:
    return {path[len(section) :]: where for path, where in positions.items() if path[: len(section)] == section}


def _references(specs: Mapping[str, JobSpec], project: str) -> Iterator[Finding]:
    """Reports names that are probably misspelt. A task that is not in the file may exist on the cluster."""
    for name, spec in specs.items():
        for channel_name, channel in spec.channels.items():
            _, _, task = (channel.task or "").rpartition("/")
            if channel.task != f"{project}/{task}":
                continue
            path = ("jobs", name, "channels", channel_name)
            if task not in specs:
                yield from _unknown((*path, "task"), task, specs)
            elif channel.output not in specs[task].outputs:
                known = ", ".join(specs[task].outputs) or "it has none"
                hint = did_you_mean(channel.output or "", specs[task].outputs, f"known: {known}")
                yield Finding((*path, "output"), f"the job {task} has no output {channel.output!r}", hint)
        for index, named in enumerate(spec.after):
            if not named.isdigit() and named.removeprefix(f"{project}/") not in specs:
                yield from _unknown(("jobs", name, "after", index), named, specs)


def _unknown(path: KeyPath, name: str, specs: Mapping[str, JobSpec]) -> Iterator[Finding]:
    if hint := did_you_mean(name, specs):
        yield Finding(path, f"no job {name!r} in this pipeline", hint)


def _before(spec: JobSpec, specs: Mapping[str, Any], project: str) -> tuple[str, ...]:
    names = (label.removeprefix(f"{project}/") for label in waits_for(spec))
    return tuple(name for name in names if name in specs)


def _circle(before: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The steps of a cycle: each waits for the next."""
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None


def _ordered(before: Mapping[str, Sequence[str]]) -> list[str]:
    """The file's order, with each step after all that it waits for. The caller has ruled out cycles."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for each in before[name]:
            add(each)
        found.setdefault(name)

    for name in before:
        add(name)
    return list(found)
