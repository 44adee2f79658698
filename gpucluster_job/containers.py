"""Jobs with a container_image: the ranks run in it, with srun's options of pyxis, a Slurm plug-in."""

from __future__ import annotations

import json
import os

from gpucluster_job import ourselves
from gpucluster_job.node import NODE_VARIABLES, scratch_folder

VARIABLES = (
    "MASTER_ADDR,MASTER_PORT,WORLD_SIZE,NUM_NODES,GPUS_PER_NODE,RANKS_PER_NODE,OMP_NUM_THREADS,NCCL_NET,FI_PROVIDER"
)
"""Our variables that an image may also set. Unless they are listed, pyxis takes the image's values."""


def image() -> str:
    """ "" for a job without a container."""
    return os.environ.get("CONTAINER_IMAGE", "")


def inside(verb: str) -> list[str]:
    """The command that runs this package with the container's Python."""
    return ["bash", f"{ourselves.folder()}/in-container.sh", verb]


def share_with_ranks(mount: str) -> None:
    mounts = os.environ.get("CONTAINER_MOUNTS")
    os.environ["CONTAINER_MOUNTS"] = f"{mount},{mounts}" if mounts else mount


def options() -> list[str]:
    """Options for every srun that starts ranks itself. All steps share one container for each node and job. The first
    step that names it creates it; the end of the job removes it."""
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
    folder, own = ourselves.root(), os.environ.get("CONTAINER_MOUNTS")
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
