"""The commands that start ranks on SageMaker hosts, and their own variables."""

import shutil
from pathlib import Path

import pytest

from gpucluster.launchers import LAUNCHERS
from gpucluster_job.sagemaker import launchers, ours
from gpucluster_job.sagemaker.inputs import Host
from tests.unit.sagemaker.hosts import Job, program

HOSTS = ["algo-1", "algo-2"]


def launch(name: str, number: int = 0, hosts: list[str] = HOSTS, ssh: str = "") -> launchers.Launch:
    return launchers.Launch(name, hosts, number, 8, "eth0", 7777, ["RANK"], ["RANKS"], ssh)


@pytest.mark.parametrize("name", sorted(launchers.VARIABLES))
def test_ranks_read_the_variables_that_they_read_on_a_cluster(name: str) -> None:
    on_cluster = LAUNCHERS[name].variables.items()
    theirs = {f"{our}={their}" for our, their in on_cluster if not their.startswith(("SLURM", "MASTER"))}
    assert set(launchers.VARIABLES[name].split()) == theirs


def test_torchrun_meets_at_the_first_host() -> None:
    argv = launchers.argv(launch("torchrun", 1), ["python", "train.py"])
    assert argv[:3] == ["torchrun", "--nnodes=2", "--nproc-per-node=8"]
    assert {"--node-rank=1", "--local-addr=algo-2", "--master-addr=algo-1", "--master-port=7777"} <= set(argv)
    assert argv[-4:] == ["--no-python", "RANK", "python", "train.py"]


def test_mpirun_logs_in_with_the_jobs_own_key() -> None:
    argv = launchers.argv(launch("mpirun", ssh="/tmp/bin/ssh"), ["train"])
    text = " ".join(argv)
    assert text.startswith("mpirun --allow-run-as-root --host localhost:8,algo-2:8 -np 16 ")
    assert "-mca btl_tcp_if_include eth0" in text
    assert text.endswith("-mca plm_rsh_agent /tmp/bin/ssh RANK train")
    alone = " ".join(launchers.argv(launch("mpirun", hosts=HOSTS[:1]), ["train"]))
    assert "if_include" not in alone
    assert "plm_rsh_agent" not in alone


def test_horovodrun_names_its_interface_only_between_hosts() -> None:
    several = launchers.argv(launch("horovodrun"), ["train"])
    assert several[:5] == ["horovodrun", "--gloo", "-np", "16", "--start-timeout"]
    assert several[several.index("--network-interfaces") + 1] == "eth0"
    assert "--network-interfaces" not in launchers.argv(launch("horovodrun", hosts=HOSTS[:1]), ["train"])


def test_a_users_own_choice_of_network_and_port() -> None:
    host = Host(Path("/opt/ml"), {}, {}, {"current_host": "algo-2", "hosts": HOSTS})
    found = ours.variables(host, "torchrun", 8, 8, {"NCCL_SOCKET_IFNAME": "eth1", "MASTER_PORT": "9000"})
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("eth1", "eth0")
    assert (found["MASTER_PORT"], found["WORLD_SIZE"], found["GPUS_PER_NODE"]) == ("9000", "16", "8")
    assert (found["GPUCLUSTER_STATE"], found["NODE_RANK"]) == ("/opt/ml/checkpoints", "1")


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun on the PATH")
def test_mpirun_on_one_host(tmp_path: Path) -> None:
    job = Job(tmp_path)
    words = program(tmp_path, "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])")
    ((code, log),) = job.run("--launcher", "mpirun", "--ranks-per-node", "2", *words)
    assert code == 0, log
    assert "[1 127.0.0.1] rank 1 of 2\n" in log
