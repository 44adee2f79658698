"""Starts one rank in this node's container, as a step of the job, for a launcher that runs outside the container."""

from __future__ import annotations

import os

from gpucluster_job import containers
from gpucluster_job.ranks.identity import number_by_nodes, this_node
from gpucluster_job.ranks.kernel import end_with_parent


def main(words: list[str]) -> int:
    verb, *command = words
    if verb == "hosted-mpi-rank":
        number_by_nodes()
        containers.share_with_ranks("/tmp:/tmp")  # Open MPI's ranks find their daemon by a folder there
    node = os.environ.get("HOROVOD_HOSTNAME") or this_node()
    end_with_parent()  # the step must end with the launcher, because the container does not
    step = [
        "srun",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        f"--nodelist={node}",
        "--cpu-bind=none",
    ]
    os.execvp("srun", [*step, "--input=none", *containers.options(), *containers.inside("rank"), *command])
