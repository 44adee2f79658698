"""A rank on a Slurm cluster, with the variables SM_* that SageMaker's toolkit would set: `rank COMMAND...`.

So a script written for SageMaker runs here unchanged. Its model goes into the job's folder, as `sagemaker/model`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucluster_job.ranks import rank
from gpucluster_job.ranks.identity import Identity
from gpucluster_job.sagemaker import variables
from gpucluster_job.sagemaker.inputs import INTERFACE, Host

GROUP = "homogeneousCluster"
"""The toolkit's name for all hosts of a job with one instance type."""


def main(words: list[str]) -> int:
    return rank.main(words, lambda identity: set_variables(identity, words[1:]))


def set_variables(identity: Identity, command: list[str]) -> None:
    job = os.environ.get("GPUCLUSTER_JOB_DIR")
    if not job:
        return
    base = Path(job, "sagemaker")
    with suppress(OSError):  # a full disk: the program says so itself if it writes there
        for folder in ("model", "output/data"):
            (base / folder).mkdir(parents=True, exist_ok=True)
    channels, folders = _channels(Path(job, "channels"), identity.node)
    host = Host(base, {}, channels, _resources(identity.node))
    machine = variables.Machine(int(os.environ.get("GPUS_PER_NODE") or 0), os.cpu_count() or 1)
    found = variables.of_toolkit(host, machine, command, Path(job).name, folders)
    os.environ.update({name: value for name, value in found.items() if name not in os.environ})


def _resources(node: str) -> dict[str, Any]:
    hosts = os.environ.get("GPUCLUSTER_NODES", node).split()
    if node not in hosts:
        hosts.append(node)
    group = {"instance_group_name": GROUP, "instance_type": "local", "hosts": hosts}
    return {
        "current_host": node,
        "current_group_name": GROUP,
        "current_instance_type": "local",
        "hosts": hosts,
        "instance_groups": [group],
        "network_interface_name": os.environ.get("NCCL_SOCKET_IFNAME", INTERFACE),
    }


def _channels(place: Path, node: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The channels that are folders on this node, as inputdataconfig.json has them, and the folders. The files are
    those of gpucluster_train/channels.py."""
    given, folders = {}, {}
    for index in sorted(place.glob("*/index.json")):
        found = json.loads(index.read_text(encoding="utf-8"))
        copied = index.with_name(f"on-{node}")
        if found["mode"] == "copy":
            folder = copied.read_text(encoding="utf-8").strip() if copied.exists() else ""
        else:
            folder = found["root"]
        if folder.startswith("/"):
            shared = "ShardedByS3Key" if found["shard"] == "by-node" else "FullyReplicated"
            mode = {"TrainingInputMode": "File", "S3DistributionType": shared, "RecordWrapperType": "None"}
            given[index.parent.name], folders[index.parent.name] = mode, folder
    return given, folders
