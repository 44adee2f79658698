"""The command that starts the ranks, by launcher. Pure.

The names are those of job.yaml, and the variables are those that gpucluster/launchers reads on a Slurm cluster.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

TORCHS = "NODE_RANK=GROUP_RANK"
HOROVODS = (
    "RANK=HOROVOD_RANK LOCAL_RANK=HOROVOD_LOCAL_RANK WORLD_SIZE=HOROVOD_SIZE NODE_RANK=HOROVOD_CROSS_RANK "
    "GPUCLUSTER_NODE=HOROVOD_HOSTNAME"
)
MPIS = "RANK=OMPI_COMM_WORLD_RANK LOCAL_RANK=OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=OMPI_COMM_WORLD_SIZE"
VARIABLES = {"torchrun": TORCHS, "smddp": TORCHS, "srun": "", "horovodrun": HOROVODS, "mpirun": MPIS}
"""How a rank learns its identity: our variable = the launcher's."""
FROM_FIRST = ("horovodrun", "mpirun")
"""Start all hosts' ranks from the first host, over SSH."""
MASTER_PORT = 7777
"""The toolkit's (MASTER_PORT in torch_distributed.py of sagemaker-training 5.1.4). The hosts meet on the next one, and
the one after it is that of SSH."""


class Launch(NamedTuple):
    launcher: str
    hosts: Sequence[str]
    number: int
    """This host's place among them."""
    ranks_per_host: int
    interface: str
    master_port: int
    rank: Sequence[str]
    """The words that start a rank's own process."""
    ranks: Sequence[str]
    """The words that start the ranks of this host without a launcher."""
    ssh: str = ""
    """The program that takes the place of ssh."""

    @property
    def world_size(self) -> int:
        return len(self.hosts) * self.ranks_per_host

    @property
    def slots(self) -> str:
        return ",".join(f"{host}:{self.ranks_per_host}" for host in self.hosts)


def argv(launch: Launch, command: Sequence[str]) -> list[str]:
    """`smddp` is torchrun, whose ranks choose SMDDP themselves: init_process_group("smddp")."""
    started = [*launch.rank, *command]
    if launch.launcher in ("torchrun", "smddp"):
        return [*_torchrun(launch), *started]
    if launch.launcher == "horovodrun":
        return [*_horovodrun(launch), *started]
    if launch.launcher == "mpirun":
        return [*_mpirun(launch), *started]
    return [*launch.ranks, *command]


def _torchrun(launch: Launch) -> list[str]:
    size = [f"--nnodes={len(launch.hosts)}", f"--nproc-per-node={launch.ranks_per_host}", "--max-restarts=0"]
    own = [f"--node-rank={launch.number}", f"--local-addr={launch.hosts[launch.number]}"]
    first = [f"--master-addr={launch.hosts[0]}", f"--master-port={launch.master_port}"]
    return ["torchrun", *size, *own, *first, "--no-python"]


def _horovodrun(launch: Launch) -> list[str]:
    """On a single host it accepts only the loopback, which it finds itself."""
    several = len(launch.hosts) > 1
    interface = ["--network-interfaces", launch.interface] if several else []
    patience = ["--start-timeout", "300", "--disable-cache"]
    return ["horovodrun", "--gloo", "-np", str(launch.world_size), *patience, *interface, "-H", launch.slots]


def _mpirun(launch: Launch) -> list[str]:
    """The options of the toolkit's MasterRunner (mpi.py), which are for Open MPI 4.

    This host is `localhost`, because its own name is not algo-1: Open MPI 5 would log in to algo-1, which has no SSH
    server (prte_check_host_is_local in PRRTE's proc_info.c).
    """
    slots = ",".join(f"{host}:{launch.ranks_per_host}" for host in ("localhost", *launch.hosts[1:]))
    settings = [
        ("plm_rsh_no_tree_spawn", "1"),
        ("plm_rsh_num_concurrent", str(len(launch.hosts))),
        ("pml", "ob1"),
        ("btl", "^openib"),
        ("orte_abort_on_non_zero_status", "1"),
        ("btl_vader_single_copy_mechanism", "none"),
    ]
    if len(launch.hosts) > 1:
        settings += [("btl_tcp_if_include", launch.interface), ("oob_tcp_if_include", launch.interface)]
    if launch.ssh:
        settings.append(("plm_rsh_agent", launch.ssh))
    size = ["--host", slots, "-np", str(launch.world_size), "--map-by", "slot", "--bind-to", "none"]
    return ["mpirun", "--allow-run-as-root", *size, *(word for pair in settings for word in ("-mca", *pair))]
