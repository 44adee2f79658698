"""Open MPI 4 or 5 in a Slurm job: `mpi COMMAND...` writes the hostfile, sets the variables and executes the command."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gpucluster_job import ourselves
from gpucluster_job.network import NetworkError, address_of, network_of

AMAZONS = "/opt/amazon/openmpi"
"""Where EFA's installer puts Open MPI on Amazon's machine images."""


def main(words: list[str]) -> int:
    nodes = os.environ["GPUCLUSTER_NODES"].split()
    use_amazons()
    if not shutil.which("mpirun"):
        sys.exit(f"error: no mpirun on {os.uname().nodename}")
    try:
        Path(ourselves.folder(), "hostfile").write_text(hostfile(nodes, os.environ["RANKS_PER_NODE"]))
    except NetworkError as error:
        sys.exit(f"error: {error}")
    os.environ.update(parameters(len(nodes)))
    try:
        os.execvp(words[1], words[1:])
    except FileNotFoundError:
        print(f"{words[1]}: not found", file=sys.stderr)
        return 127


def use_amazons() -> None:
    if os.path.isdir(f"{AMAZONS}/bin"):
        libraries = os.environ.get("LD_LIBRARY_PATH")
        os.environ["PATH"] = f"{AMAZONS}/bin:{os.environ['PATH']}"
        os.environ["LD_LIBRARY_PATH"] = f"{AMAZONS}/lib" + (f":{libraries}" if libraries else "")


def hostfile(nodes: list[str], ranks: str) -> str:
    """Lists the nodes of this job, each of which must have its own address in the cluster's network. mpirun most often
    hangs because somebody kept the hostfile of an earlier job."""
    node_of: dict[str, str] = {}
    for node in nodes:
        address = address_of(node)
        if address in node_of:
            raise NetworkError(f"{node_of[address]} and {node} have the same address {address}")
        node_of[address] = node
    return "".join(f"{node} slots={ranks}\n" for node in nodes)


def parameters(nodes: int) -> dict[str, str]:
    """Each setting twice, because the two versions read variables of different names."""
    environ, agent = os.environ, f"{ourselves.folder()}/bin/ssh"
    found = {
        # Do not ask Slurm for the nodes: it knows one task on each node, and would start the daemons with its own
        # options.
        "OMPI_MCA_ras": "^slurm", "PRTE_MCA_ras": "^slurm",
        "OMPI_MCA_plm": "rsh", "PRTE_MCA_plm": "ssh",
        "OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent,
        # start all daemons from the first node, at once
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1", "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": str(nodes), "PRTE_MCA_plm_ssh_num_concurrent": str(nodes),
        # Horovod's documentation advises this: several threads send control messages over MPI, and NCCL sends the
        # gradients.
        "OMPI_MCA_pml": environ.get("OMPI_MCA_pml") or "ob1", "OMPI_MCA_btl": environ.get("OMPI_MCA_btl") or "^openib",
        # Amazon's images with EFA set this too: sharing memory through files has failed on machines that run several
        # jobs.
        "PMIX_MCA_gds": environ.get("PMIX_MCA_gds") or "hash",
    }  # fmt: skip
    return {**found, **_interfaces()} if nodes > 1 else found


def _interfaces() -> dict[str, str]:
    """Gives Open MPI the cluster's network as CIDR, because interface names differ between nodes, and a container
    runtime gives every node a bridge with the same address."""
    environ, name = os.environ, "OMPI_MCA_btl_tcp_if_include"
    network = network_of(environ["MASTER_ADDR"])
    return {
        name: environ.get(name) or network,
        "OMPI_MCA_oob_tcp_if_include": network,
        "PRTE_MCA_prte_if_include": network,
    }
