"""Our own variables on a SageMaker host, as jobs have them on a Slurm cluster. Pure."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from gpucluster_job.sagemaker import launchers
from gpucluster_job.sagemaker.inputs import Host

LIBRARY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder of gpucluster_job and gpucluster_train."""

OUTPUT, BASE = "GPUCLUSTER_OUTPUT_", "/opt/ml/"
READERS = "GPUCLUSTER_CHANNELS"
"""JSON: channel -> its shard. gpucluster_train/sagemaker.py reads it."""
SHARDS = ("by-rank", "by-node", "none", "local-rank", "global-rank")
"""As in job.yaml, and two for a channel per rank: NAME_0, NAME_1, …"""


def variables(host: Host, launcher: str, ranks: int, gpus: int, given: Mapping[str, str]) -> dict[str, str]:
    """`given`: the container's own variables, which take precedence where a user may choose."""
    hosts, base = host.hosts, str(host.base)
    found = {
        "GPUCLUSTER_LAUNCHER": launcher,
        "GPUCLUSTER_RANK_VARIABLES": launchers.VARIABLES[launcher],
        "GPUCLUSTER_NODES": " ".join(hosts),
        "GPUCLUSTER_NODE": host.name,
        "GPUCLUSTER_STATE": f"{base}/checkpoints",
        "GPUCLUSTER_TENSORBOARD": f"{base}/output/tensorboard",
        "NUM_NODES": str(len(hosts)),
        "NODE_RANK": str(host.number),
        "GPUS_PER_NODE": str(gpus),
        "RANKS_PER_NODE": str(ranks),
        "WORLD_SIZE": str(len(hosts) * ranks),
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": given.get("MASTER_PORT", str(launchers.MASTER_PORT)),
        "PYTHONPATH": joined([LIBRARY, *given.get("PYTHONPATH", "").split(":")]),
        "PYTHONUNBUFFERED": given.get("PYTHONUNBUFFERED", "1"),
    }
    if len(hosts) > 1:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            found[name] = given.get(name, host.interface)
    return found


def outputs(given: Mapping[str, str]) -> list[str]:
    """The folders of the task's outputs below /opt/ml, which `submit` names."""
    named = (path for name, path in given.items() if name.startswith(OUTPUT))
    return [path[len(BASE) :] for path in named if path.startswith(BASE)]


def joined(folders: Sequence[str]) -> str:
    return ":".join(filter(None, dict.fromkeys(folders)))
