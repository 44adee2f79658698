"""Jobs on a Slurm cluster that GpuCluster did not build: an ordinary user, a plain sshd, no accounting."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bed import ROOT

from localcloud.machines import image
from localcloud.testing.patience import wait_for
from tests import warm

PROGRAM = Path(__file__).parent / "programs" / "slurm-of-others.sh"
TRAIN = """\
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.prefix, flush=True)
if sys.argv[1:] == ["fail"]:
    raise SystemExit("the loss is not a number")
if sys.argv[1:] == ["wait"]:
    time.sleep(600)
"""
JOB = ("--launcher", "srun", "--ntasks-per-node", "1", "--gpus-per-node", "0", "--python", "/home/me/venv")
COMMAND = ("--", "python", "train.py")


@dataclass(frozen=True)
class Lab:
    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"ssh://me@127.0.0.1:{self.port}"

    def gpucluster(self, *words: str) -> subprocess.CompletedProcess[str]:
        """With the user's part of ssh's configuration, which is otherwise in ~/.ssh."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        own = {"PATH": path, "XDG_CONFIG_HOME": str(self.folder / "config"), "PYTHONPATH": str(ROOT)}
        return warm.gpucluster(*words, env=os.environ | own, cwd=self.folder / "code", timeout_s=300)

    def ok(self, *words: str) -> str:
        done = self.gpucluster(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def last(self, *words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.ok(*words).splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    for name in ("bin", "code", "root"):
        (folder / name).mkdir()
    (folder / "code" / "train.py").write_text(TRAIN)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    lab = Lab(folder, _port())
    unshare = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", PROGRAM, image.build()]
    argv = [*unshare, folder / "root", str(lab.port), folder / "key.pub"]
    with (folder / "log").open("w") as log, subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            assert process.stdout is not None
            host_key = process.stdout.readline().decode().split()[:2]
            assert host_key, (folder / "log").read_text()
            (folder / "known_hosts").write_text(f"[127.0.0.1]:{lab.port} {' '.join(host_key)}\n")
            _users_ssh(folder)
            wait_for("the login node", lambda: lab.gpucluster("context", "add", "lab", lab.address).returncode == 0, 30)
            yield lab
        finally:
            lab.gpucluster("context", "remove", "lab")
            process.kill()


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1]) % 20000 + 10000


def _users_ssh(folder: Path) -> None:
    options = {"IdentityFile": "key", "UserKnownHostsFile": "known_hosts", "ControlPath": "%C"}
    words = " ".join(f"-o {name}={folder / value}" for name, value in options.items())
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -o IdentitiesOnly=yes {words} "$@"\n')
    (folder / "bin" / "ssh").chmod(0o755)


def test_context_add_shows_partitions_and_their_gpus(lab: Lab) -> None:
    done = lab.gpucluster("context", "add", "lab", lab.address)
    assert json.loads(done.stdout)["folder"] == "/home/me/gpucluster"
    for line in (
        "debug      1      2     0    none\n",
        "debug      1      2     0    2 h100\n",
        "gpu        1      2     0    2 h100\n",
    ):
        assert line in done.stderr
    assert "no accounting: " in done.stderr and "no pyxis: " in done.stderr
    lab.ok("context", "use", "lab")
    # Until its slurmd has registered, a node is "unknown".
    wait_for("the nodes of the lab", lambda: "partition debug: 2 idle" in lab.ok("status"), 60)


def test_a_job_runs_on_two_nodes(lab: Lab) -> None:
    place = ("--output", "logs/%x-%j@%N.out")
    done = lab.gpucluster("submit", *JOB, "--nodes", "2", "--name", "digits", *place, "--follow", *COMMAND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"[0 lab1] rank 0 of 2 /home/me/venv", "[1 lab2] rank 1 of 2 /home/me/venv"} <= set(done.stdout.splitlines())
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["state"], found["result"]["node_list"]) == ("COMPLETED", ["lab1", "lab2"])
    copy = lab.ok("ssh", "--", "cat", f"logs/digits-{found['job_id']}@lab1.out")
    assert copy.endswith(lab.ok("logs", str(found["job_id"])))
    again = lab.last("submit", *JOB, "--nodes", "2", "--name", "digits", *COMMAND)
    assert again == {"job_id": found["job_id"], "folder": found["folder"], "name": "digits", "skipped": True}


def test_a_job_that_fails_names_the_rank_and_the_reason(lab: Lab) -> None:
    done = lab.gpucluster("submit", *JOB, "--follow", *COMMAND, "fail")
    assert done.returncode == 4
    job_id = json.loads(done.stdout.splitlines()[-1])["job_id"]
    reason = "rank 0 on lab1 exited with code 1: the loss is not a number"
    assert reason in done.stderr
    assert reason in lab.ok("why", job_id) and reason in lab.ok("jobs")
    assert "[0 lab1] the loss is not a number" in lab.ok("logs", job_id)


def test_a_job_gets_gpus_of_a_typed_gres(lab: Lab) -> None:
    shell = ("--", "sh", "-c", "echo devices $CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME")
    asked = ("submit", *JOB, "--partition", "gpu", "--preflight", "off", "--follow")
    assert "[0 lab2] devices 0,1 on lab2\n" in lab.ok(*asked, "--gpus-per-node", "2", *shell)
    assert "[0 lab2] devices 0 on lab2\n" in lab.ok(*asked, "--gpus-per-node", "1", "--no-exclusive", *shell)


def test_a_job_is_cancelled(lab: Lab) -> None:
    job_id = str(lab.last("submit", *JOB, "--name", "long", *COMMAND, "wait")["job_id"])
    wait_for("its log", lambda: "rank 0 of 1" in lab.ok("logs", job_id), 60)
    assert lab.last("cancel", job_id) == {"cancelled": [job_id]}
    wait_for("its end", lambda: "cancelled" in lab.ok("why", job_id).splitlines()[0], 60)


def test_a_sweep_runs_and_another_job_may_follow_it(lab: Lab) -> None:
    swept = lab.gpucluster("submit", *JOB, "--follow", "--name", "sweep", "--sweep", "seed=1..2", *COMMAND, "{seed}")
    assert swept.returncode == 0, swept.stdout + swept.stderr
    job_id = json.loads(swept.stdout.splitlines()[-1])["job_id"]
    assert lab.ok("results", job_id).count("completed") == 2
    done = lab.gpucluster("submit", *JOB, "--follow", "--name", "next", "--after", "sweep", *COMMAND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"the task code/sweep, job {job_id}, has already succeeded\n" in done.stderr


def test_fetch_copies_a_jobs_files(lab: Lab) -> None:
    (lab.folder / "code" / "data.txt").write_text("data")
    lab.ok("sync", "data.txt", ":there/")
    assert lab.ok("ssh", "--", "cat", "there/data.txt").endswith("data")
    lab.ok("sync", ":there/data.txt", "back.txt")
    assert (lab.folder / "code" / "back.txt").read_text() == "data"
