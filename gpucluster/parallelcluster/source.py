"""A file as `gpucluster init --from` gets it, or the sentence that says why it cannot be converted."""

from __future__ import annotations

import re
from typing import Any

from gpucluster.config import foreign
from gpucluster.config.parse import parse
from gpucluster.errors import ConfigError, UsageError

MOST_CHARACTERS = 1_000_000
"""A template of CloudFormation, which ParallelCluster makes of the file, holds as many."""
_TEMPLATE = re.compile(r"\{\{|\{%")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]")


def read(text: str, file: str) -> dict[str, Any]:
    """The file's values. Raises UsageError, ConfigError."""
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"{file} has {len(text)} characters: no configuration of ParallelCluster has more than a million"
        )
    document = parse(text, file)
    marked = next((number for number, line in enumerate(text.splitlines(), 1) if _TEMPLATE.search(line)), 0)
    if marked:
        what = f"{file}:{marked}: this is a template: {text.splitlines()[marked - 1].strip()[:80]}"
        raise UsageError(what, "render the template first, then convert the result")
    known = foreign.recognized(document, cluster=True)
    if known and known.what != foreign.PARALLELCLUSTER:
        hint = known.hint if known.what == foreign.PARALLELCLUSTER_2 else "it must have HeadNode and Scheduling"
        raise UsageError(f"{file} is {known.what}: only files of ParallelCluster 3 can be converted", hint)
    if document.problems:
        raise ConfigError(document.problems)
    data = document.data
    if data is None:
        raise UsageError(f"{file} is empty", "name a file of ParallelCluster 3, with HeadNode and Scheduling")
    if isinstance(data, dict) and data.keys() & {"region", "partitions", "head_node"}:
        raise UsageError(f"{file} is a cluster.yaml of GpuCluster already", f"gpucluster validate {file}")
    if not known or not isinstance(data, dict):
        hint = "a file of ParallelCluster 3 has HeadNode and Scheduling"
        raise UsageError(f"{file} is no configuration of ParallelCluster", hint)
    _check_queues(data, file)
    return data


def _check_queues(data: dict[str, Any], file: str) -> None:
    """Raises UsageError."""
    scheduling = data.get("Scheduling")
    scheduling = scheduling if isinstance(scheduling, dict) else {}
    scheduler = str(scheduling.get("Scheduler", "slurm"))
    if scheduler != "slurm":
        what = f"{file}: Scheduling.Scheduler must be slurm, got {scheduler}"
        raise UsageError(
            what, "GpuCluster has Slurm only: write the queues as SlurmQueues, or start with `gpucluster init`"
        )
    queues = scheduling.get("SlurmQueues")
    if not isinstance(queues, list) or not any(
        isinstance(each, dict) and each.get("ComputeResources") for each in queues
    ):
        hint = "a cluster needs one: `- Name: train` with ComputeResources"
        raise UsageError(f"{file}: Scheduling.SlurmQueues has no queue with ComputeResources", hint)


def region_of(data: dict[str, Any], environment: str | None, file: str) -> str:
    """`environment`: the region of AWS's variables or profile. Raises UsageError."""
    asked = str(data.get("Region") or "").strip()
    if _REGION.fullmatch(asked):
        return asked
    if environment:
        return environment
    what = f"{file}: Region must be an AWS region, got {asked!r}" if asked else f"{file} has no Region"
    raise UsageError(what, f"name it: AWS_DEFAULT_REGION=us-east-1 gpucluster init --from {file}")


def subnets_of(data: dict[str, Any]) -> list[str]:
    """The ids of all subnets that nodes are in."""
    found: dict[str, None] = {}
    _collect(data.get("HeadNode"), found)
    _collect(data.get("Scheduling"), found)
    return [each for each in found if re.fullmatch(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})", each)]


def _collect(data: Any, found: dict[str, None]) -> None:
    if isinstance(data, list):
        for each in data:
            _collect(each, found)
    elif isinstance(data, dict):
        for key, value in data.items():
            if key in ("SubnetId", "SubnetIds"):
                found.update(dict.fromkeys(map(str, value if isinstance(value, list) else [value])))
            else:
                _collect(value, found)
