"""What a job's nodes should have, for the programs of `templates/job/preflight*` that look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gpucluster.config.models import PARAMETER_SERVERS, ClusterConfig, HeadNfs
from gpucluster.job.spec import JobSpec

PROGRAMS = (
    "preflight.sh",
    "preflight_probe.py:preflight/probe.py",
    "preflight_judge.py:preflight/judge.py",
    "preflight_nccl.py:preflight/nccl.py",
)
"""As a launcher's `programs`: every job has them."""


def files(spec: JobSpec, config: ClusterConfig) -> Mapping[str, str]:
    return {"preflight/expected.json": json.dumps(expected(spec, config)) + "\n"}


def expected(spec: JobSpec, config: ClusterConfig) -> dict[str, object]:
    return {
        "level": spec.preflight,
        "gpus": spec.gpus_per_node or 0,
        "efa": spec.efa,
        "efa_interfaces": efa_interfaces(config, spec.partition or ""),
        "mounts": [storage.mount for storage in config.storage if isinstance(storage, HeadNfs)],
    }


def efa_interfaces(config: ClusterConfig, partition: str) -> dict[str, int]:
    """Instance type -> how many each node of it has; none where the partition is without EFA."""
    if partition == PARAMETER_SERVERS or config.partition(partition).efa == "off":
        return {}
    return {each.name: each.efa_interfaces for each in config.instance_types(partition)}
