"""With a container_image the ranks run in it: pyxis, a plug-in of Slurm's, gives srun the options."""

from __future__ import annotations

import json
import os

from gpucluster_job import ourselves
from gpucluster_job.node import NODE_VARIABLES, scratch_folder

VARIABLES = (
    "MASTER_ADDR,MASTER_PORT,WORLD_SIZE,NUM_NODES,GPUS_PER_NODE,RANKS_PER_NODE,OMP_NUM_THREADS,NCCL_NET,FI_PROVIDER"
)
"""Ours that an image may set too: the image's would be taken."""


def image() -> str:
    """ "" for a job without."""
    return os.environ.get("CONTAINER_IMAGE", "")


def inside(verb: str) -> list[str]:
    """This package in a container, whose Python is not the node's."""
    return ["bash", f"{ourselves.folder()}/in-container.sh", verb]


def share_with_ranks(mount: str) -> None:
    mounts = os.environ.get("CONTAINER_MOUNTS")
    os.environ["CONTAINER_MOUNTS"] = f"{mount},{mounts}" if mounts else mount


def options() -> list[str]:
    """For every srun that starts ranks itself. One container for each node and job, made by the first step that names
    it; the job's end removes it."""
    if not image():
        return []
    return [
        f"--container-name=gpucluster-{os.environ['SLURM_JOB_ID']}",
        f"--container-mounts={','.join(mounts())}",
        f"--container-workdir={ourselves.folder()}/code",
        f"--container-env={VARIABLES}",
        "--container-writable",
        "--no-container-remap-root",
        "--no-container-entrypoint",
        "--no-container-mount-home",
    ]


def mounts() -> list[str]:
    folder, own = ourselves.folder(), os.environ.get("CONTAINER_MOUNTS")
    found = [f"{folder}:{folder}"] + ([own] if own else [])
    if os.path.exists(NODE_VARIABLES):
        found.append(f"{NODE_VARIABLES}:{NODE_VARIABLES}:ro")
    if copies_data():
        copies = f"{scratch_folder()}/cache"
        found.append(f"{copies}:{copies}:ro")
    ram = os.environ.get("GPUCLUSTER_RAM")
    return found + ([f"{ram}:{ram}"] if ram else [])


def copies_data() -> bool:
    try:
        with open(f"{ourselves.folder()}/channels.json", encoding="utf-8") as file:
            return any(asked["mode"] == "copy" for asked in json.load(file).values())
    except OSError:
        return False
