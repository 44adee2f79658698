"""One process of a job with roles: `role worker|server|scheduler|chief leading|leashed COMMAND...`

Sets the process's environment. A leashed process is ended when its input closes, and that is no failure.
"""

from __future__ import annotations

import json
import os
from typing import Callable

from gpucluster_job.ranks import rank
from gpucluster_job.ranks.identity import Identity, Refused, agree_with_slurm, own_variables, this_node


def main(words: list[str]) -> int:
    _, role, kind, *command = words
    launcher, index = os.environ["GPUCLUSTER_LAUNCHER"], int(os.environ["SLURM_PROCID"])
    os.environ["GPUCLUSTER_ROLE"] = role
    is_chief = launcher == "tensorflow-mwms" and role == "chief"
    if launcher == "tensorflow-mwms" and role == "worker" and index == 0:
        return 0  # the first worker is the chief, which has its own step
    try:
        identity = worker(index) if role == "worker" or is_chief else other(role, index)
        FRAMEWORKS[launcher.partition("-")[0]](role, index)
    except Refused as refusal:
        return rank.failed(Identity(role, this_node()), 1, str(refusal))
    return rank.run(identity, command, leashed=kind == "leashed")


def worker(index: int) -> Identity:
    environ = os.environ
    environ["RANK"], environ["LOCAL_RANK"], environ["NODE_RANK"] = (
        str(index),
        environ["SLURM_LOCALID"],
        environ["SLURM_NODEID"],
    )
    own_variables()
    agree_with_slurm()  # the chief of tensorflow-mwms has a step of its own
    share_gpus(int(environ["LOCAL_RANK"]), int(environ["GPUS_PER_NODE"]) // int(environ["RANKS_PER_NODE"]))
    return Identity(str(index), environ["GPUCLUSTER_NODE"])


def share_gpus(local_rank: int, share: int) -> None:
    """Ranks on a node share its GPUs, because frameworks take all GPUs that they see."""
    environ = os.environ
    if int(environ["RANKS_PER_NODE"]) > 1 and share:
        usual = ",".join(map(str, range(int(environ["GPUS_PER_NODE"]))))
        every = (environ.get("CUDA_VISIBLE_DEVICES") or usual).split(",")
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(every[local_rank * share : (local_rank + 1) * share])


def other(role: str, index: int) -> Identity:
    """Processes beside a worker must not use GPU memory. Server nodes without GPUs have their own environment."""
    environ, label = os.environ, role
    if role == "server":
        label = f"server-{index}"
        if environ.get("GPUCLUSTER_SERVER_PATH"):
            environ["PATH"] = f"{environ['GPUCLUSTER_SERVER_PATH']}:{environ['PATH']}"
    environ["GPUCLUSTER_LABEL"], environ["CUDA_VISIBLE_DEVICES"] = label, ""
    return Identity(label, own_variables()["GPUCLUSTER_NODE"], is_rank=False, reads_data=role == "chief")


def tell_mxnet(role: str, index: int) -> None:
    from gpucluster_job.network import NetworkError, address_of

    try:
        os.environ["DMLC_NODE_HOST"] = address_of(os.environ["SLURMD_NODENAME"])
    except NetworkError as error:
        raise Refused(str(error)) from None
    os.environ["DMLC_ROLE"] = role
    os.environ.pop("PORT", None)  # every process of the job would make ps-lite listen there


def tell_tensorflow(role: str, index: int) -> None:
    kind = "ps" if role == "server" else role
    if role == "chief" and os.environ["GPUCLUSTER_LAUNCHER"] == "tensorflow-mwms":
        kind = "worker"
    cluster = json.loads(os.environ.pop("TF_CLUSTER"))
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


FRAMEWORKS: dict[str, Callable[[str, int], None]] = {"mxnet": tell_mxnet, "tensorflow": tell_tensorflow}
