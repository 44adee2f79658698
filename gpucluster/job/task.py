"""A task: a program that is run again and again. The keys `project` and `name` identify it; each of its jobs is a run.

Its folder on the cluster is ~/tasks/PROJECT/NAME/, and for an element of a sweep the folder ELEMENT in that:

    state/             files that its programs keep from run to run: $GPUCLUSTER_STATE
    runs/JOB_ID.json   one record for each run, which the job writes at its end

A job without `name` and `project` is no task: its state is in the job's folder, and it is never skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpucluster import account
from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job import channels
from gpucluster.job.spec import NAME, JobSpec

_DIGITS, _LEGIBLE = 8, 55
"""Letters of a name that is made from another text. A name has at most 64."""


class Task(NamedTuple):
    project: str
    name: str
    element: str = ""
    """For a sweep: each element has its own state and runs."""

    @classmethod
    def of(cls, spec: JobSpec) -> Task | None:
        """`spec` has been completed by `load`."""
        return cls(spec.project, spec.name) if spec.project and spec.name else None

    @property
    def label(self) -> str:
        """`digits/train`, as messages show it."""
        return "/".join(filter(None, (self.project, self.name, self.element)))

    @property
    def folder(self) -> str:
        return f"{account.tasks()}/{self.label}"

    @property
    def state(self) -> str:
        return f"{self.folder}/state"

    @property
    def runs(self) -> str:
        return f"{self.folder}/runs"


def project_of(spec: JobSpec, base: Path) -> str | None:
    """Default: the name of the uploaded folder. `spec` is not completed yet: only a job to which the user gave a name
    is a task. `base` is the folder that `workdir` is relative to."""
    if spec.project or not spec.name or "project" in spec.model_fields_set:  # `project: null` makes it no task
        return spec.project
    folder = os.path.realpath(base / Path(spec.workdir or ".").expanduser())
    return own_name(os.path.basename(folder), "default")


def own_name(text: str, default: str) -> str:
    """A name that is allowed for a project and a task, and another one for each text: those of one name share their
    state. A text that is allowed stays as it is. macOS may write letters in Unicode's form NFD, other systems write
    NFC."""
    import hashlib
    import unicodedata

    text = unicodedata.normalize("NFC", text)
    if re.fullmatch(NAME, text):
        return text
    legible = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:_LEGIBLE].rstrip("-._") or default
    return f"{legible}-{hashlib.sha256(os.fsencode(text)).hexdigest()[:_DIGITS]}"


def check(spec: JobSpec, config: ClusterConfig) -> Iterator[Finding]:
    if spec.state and not spec.project:
        yield Finding(("state",), "only a job with a name keeps state", "add a name, such as --name train")
    elif spec.state and in_s3(spec.state):
        yield from _access(spec, spec.state, config)
    elif spec.state and (problem := channels.not_shared(spec.state, config)):
        yield Finding(("state",), problem, "name a folder there, or an s3:// prefix")
    yield from _resubmit(spec)


def _access(spec: JobSpec, uri: str, config: ClusterConfig) -> Iterator[Finding]:
    if channels.brings_keys(spec):
        return
    if not config.jobs_may("read-write", uri):
        refused = f"the jobs of the cluster {config.name} may not write to {uri}"
        yield Finding(("state",), refused, f'add {{uri: "{uri}", access: read-write}} to s3_access in cluster.yaml')


def _resubmit(spec: JobSpec) -> Iterator[Finding]:
    if spec.resubmit and not spec.time:
        yield Finding(("resubmit",), "needs a time limit, which this job lacks", "add a time, such as 2:00:00")
    if spec.resubmit and not spec.requeue:
        yield Finding(("resubmit",), "runs the job again, which `requeue: no` forbids", "remove requeue")
    if spec.resubmit_limit and not spec.resubmit:
        yield Finding(("resubmit_limit",), "needs resubmit, which is not set", "add resubmit: until-done")
