"""Names from other tools that job.yaml and the Python API also accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpucluster.config.document import Finding

ALIASES = {
    "job_name": "name",
    "num_nodes": "nodes",
    "tasks_per_node": "ntasks_per_node",
    "nproc_per_node": "ntasks_per_node",
    "gpus": "gpus_per_node",
    "gpu": "gpus_per_node",
    "accelerators": "gpus_per_node",
    "cpus": "cpus_per_task",
    "memory": "mem",
    "depends_on": "dependency",
    "timeout_min": "time",
    "queue": "partition",
    "envs": "env",
    "env_vars": "env",
    "environment": "env",
    "type": "launcher",
    "distribution": "launcher",
    "run": "command",
    "image": "container_image",
    "additional_parameters": "sbatch_args",
}


def canonical(data: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the aliases. A key given under both names keeps the value of its own name; `conflicts` reports it."""
    renamed = {ALIASES.get(key, key): _meaning(key, value) for key, value in data.items()}
    return renamed | {key: value for key, value in data.items() if key not in ALIASES}


def conflicts(data: Mapping[str, Any]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for key in data:
        name = ALIASES.get(key, key)
        if name in seen:
            yield Finding((key,), f"has the same meaning as {seen[name]}", "keep one of the two", at="key")
        seen[name] = key


def _meaning(key: str, value: Any) -> Any:
    if key == "accelerators" and isinstance(value, str) and value.rpartition(":")[2].isdigit():
        return int(value.rpartition(":")[2])
    return value
