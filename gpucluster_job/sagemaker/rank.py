"""One rank on a SageMaker host, under any launcher: `sagemaker-rank COMMAND...`."""

from __future__ import annotations

import os

from gpucluster_job.ranks import cpus
from gpucluster_job.ranks.identity import FIRST, Identity, Refused, number_by_nodes, own_variables, this_node
from gpucluster_job.ranks.kernel import end_with_parent
from gpucluster_job.ranks.rank import failed, run_program
from gpucluster_job.sagemaker import place
from gpucluster_job.sagemaker.limits import PROGRAM_S


def main(words: list[str]) -> int:
    end_with_parent()
    try:
        identity = identify()
    except Refused as refusal:
        return failed(Identity(os.environ.get("RANK", "?"), this_node()), 1, str(refusal))
    return run_program(identity, words[1:], environment(identity), grace_s=PROGRAM_S)


def identify() -> Identity:
    """Also sets the environment of the rank's own host: a launcher may have brought that of the first one."""
    if os.environ["GPUCLUSTER_LAUNCHER"] == "mpirun":
        number_by_nodes()
    own = {name: value for name, value in own_variables().items() if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    number, node = os.environ["NODE_RANK"], this_node()
    os.environ.update(place.environment(place.folder(os.environ.get("TRAINING_JOB_NAME", ""), node)))
    os.environ.update({**own, "NODE_RANK": number, "GPUCLUSTER_NODE": node})
    return Identity(own["RANK"], node)


def environment(identity: Identity) -> dict[str, str]:
    """Only rank 0 writes TensorBoard's event files: several processes in one folder would be one confused run."""
    left_out = () if identity.label in FIRST else ("GPUCLUSTER_TENSORBOARD",)
    os.environ.update(cpus.variables(os.environ, is_rank=True))
    cpus.bind(os.environ)
    return {**{name: value for name, value in os.environ.items() if name not in left_out}, "PWD": os.getcwd()}
