"""The real torchrun, started as by the launcher: a stranger's pickle in its store runs no code, and stops no job.

The pickle is what torchrun's rendezvous c10d reads: C10dRendezvousBackend's key and encoding in
torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py, unpickled in dynamic_rendezvous.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bed import WHEELS

from gpucluster.launchers import LAUNCHERS, LaunchRequest
from gpucluster_job.network import Port
from localcloud.testing.patience import wait_for

SUBJECTS = ["bootstrap/environments/torch.txt", "gpucluster/launchers/torchrun.py", "gpucluster_job/network.py"]
COVERED_BY = (
    "test_job_script.py: the launch line names the static rendezvous; test_launchers.py: torchrun's ranks meet, booted"
)

PROGRAM = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("sum", one.item(), flush=True)
open(f"met-{os.environ['RANK']}", "w").close()
while not os.path.exists("end"):
    time.sleep(0.2)
"""
ATTACK = """
import base64, os, pickle, sys
from torch.distributed import TCPStore
class Touches:
    def __reduce__(self):
        return os.system, ("touch owned",)
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False)
store.set("torch.rendezvous." + sys.argv[2], base64.b64encode(pickle.dumps(Touches())).decode())
print("written", flush=True)
os._exit(0)
"""
JOB = "7"


def options(port: int, backend: str) -> list[str]:
    """The launcher's, or the same with another rendezvous."""
    argv = LAUNCHERS["torchrun"].argv(LaunchRequest(folder="/job", nodes=2, ranks_per_node=1))
    values = {"{SLURM_JOB_ID}": JOB, "{MASTER_ADDR}": "127.0.0.1", "{MASTER_PORT}": str(port)}
    words = [word for word in argv if word.startswith(("--nnodes", "--nproc", "--max-restarts", "--rdzv"))]
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    return [word.replace("--rdzv-backend=static", f"--rdzv-backend={backend}") for word in words]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not WHEELS.is_dir():
        pytest.skip("make boot downloads the jobs' wheels")
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    places = ["--no-index", "--find-links", WHEELS, "--find-links", WHEELS / "torch"]
    newest = sorted(WHEELS.glob("torch-*+cpu-*.whl"))[-1]
    subprocess.run([folder / "bin/pip", "install", "-q", *places, newest, "numpy", "setuptools"], check=True)
    return folder / "bin/python"


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_a_pickle_in_the_store_is_not_read(
    python: Path, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With c10d it is read: so the attack is the right one."""
    monkeypatch.setenv("SLURM_JOB_ID", JOB)
    (tmp_path / "program.py").write_text(PROGRAM)
    reserved = Port()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    own = [
        ["--local-addr=127.0.0.1", f"--node-rank={node}", "--rdzv-conf=timeout=300"]
        if backend == "static"
        else ["--local-addr=127.0.0.1", f"--rdzv-conf=is_host={str(node == 0).lower()},join_timeout=300"]
        for node in range(2)
    ]
    agents = [
        subprocess.Popen(
            [python, "-m", "torch.distributed.run", *words, *options(reserved.number, backend), "program.py"],
            cwd=tmp_path, env=environment,
        )
        for words in own
    ]  # fmt: skip
    try:
        wait_for("the ranks", lambda: all((tmp_path / f"met-{rank}").exists() for rank in range(2)), 120)
        attack = [python, "-c", ATTACK, str(reserved.number), JOB]
        done = subprocess.run(attack, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        if backend == "c10d":
            wait_for("the pickle's code", (tmp_path / "owned").exists, 60)
            return
        assert done.stdout.split() == ["written"], done.stderr
        (tmp_path / "end").touch()
        assert [agent.wait(timeout=120) for agent in agents] == [0, 0]
        assert not (tmp_path / "owned").exists()
    finally:
        (tmp_path / "end").touch()
        for agent in agents:
            agent.kill()
            agent.wait()
