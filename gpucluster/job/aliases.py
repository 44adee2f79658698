"""Names from other tools that job.yaml and the Python API also accept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from gpucluster import job_keys
from gpucluster.config.document import Finding
from gpucluster.layout import Partition

ALIASES = {alias: key.name for key in job_keys.of_job() for alias in key.aliases.split()}

_CPUS = ("counts the CPUs of a node in other tools", "write cpus_per_task: the CPUs of each rank")
_DISK = ("a job has no disk of its own", "leave it out; docs/storage.md says what nodes have")
REFUSED = {"cpus": _CPUS, "cpu": _CPUS, "disk": _DISK, "disk_size": _DISK}
"""Keys of other tools whose value means nothing here, with the reason and what to do."""
_GPUS = ("gpus", "gpu", "accelerators")
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


def canonical(data: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the aliases. A key given under both names keeps the value of its own name; `conflicts` reports it."""
    known = {key: value for key, value in data.items() if key not in REFUSED}
    renamed = {ALIASES.get(key, key): _meaning(key, value) for key, value in known.items()}
    return renamed | {key: value for key, value in known.items() if key not in ALIASES}


def conflicts(data: Mapping[str, Any]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for key in data:
        name = ALIASES.get(key, key)
        if key in REFUSED:
            yield Finding((key,), *REFUSED[key], at="key")
        if name in seen:
            yield Finding((key,), f"has the same meaning as {seen[name]}", "keep one of the two", at="key")
        seen[name] = key


def other_model(data: Mapping[str, Any], partition: Partition) -> Iterator[Finding]:
    """Reports GPUs of another model than the partition's: a job here asks only for their number."""
    have = {kind.gpu_model for kind in partition.types if kind.gpu_model}
    for key in _GPUS:
        model = _model_and_count(data.get(key))[0]
        if model and have and not any(_plain(model).startswith(_plain(each)) for each in have):
            got = f"the nodes of {partition.name} have {' or '.join(sorted(map(str.upper, have)))} GPUs, got {model}"
            yield Finding((key,), got, "choose another partition, or write only the number")


def _plain(model: str) -> str:
    return model.lower().replace("-", "").replace(" ", "")


def _meaning(key: str, value: Any) -> Any:
    if key in _GPUS:
        model, count = _model_and_count(value)
        return count if model else value
    if ALIASES.get(key) == "mem":
        return _size(value, "M" if key == "memMB" else "G")
    return value


def _model_and_count(value: Any) -> tuple[str, int]:
    """`H100:8`, `H100`, `{H100: 8}`: SkyPilot's and dstack's. The model is empty for any other value, such as `all`:
    every model has a digit in its name."""
    if isinstance(value, dict) and len(value) == 1:
        ((model, count),) = value.items()
        value = f"{model}:{count}"
    found = re.fullmatch(r"([A-Za-z][\w.-]*?\d[\w.-]*)(?::(\d+))?", value) if isinstance(value, str) else None
    return (found[1], int(found[2] or 1)) if found else ("", 0)


def _size(value: Any, unit: str) -> Any:
    """In Slurm's form. `unit`: that of a number alone. `64+` and `64GB..` mean at least, as `mem` does."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*(?:([KMGT])i?B?)?(?:\+|\.\..*)?", str(value), re.IGNORECASE)
    if isinstance(value, bool) or not found:
        return value
    mib = ceil(float(found[1]) * _MIB[(found[2] or unit).upper()])  # 0 would be all memory
    return "0" if not mib else f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"
