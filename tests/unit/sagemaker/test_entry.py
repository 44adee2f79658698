"""The entry point of a SageMaker container: real processes, each with an /opt/ml of its own."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.unit.sagemaker.hosts import Job, program

WRITES = """
import json, os
from pathlib import Path
rank = os.environ["RANK"]
Path(os.environ["SM_MODEL_DIR"], f"rank-{rank}.json").write_text(json.dumps(dict(os.environ)))
print("trained", flush=True)
"""
FAILS = """
import os, time
if os.environ["RANK"] == "3":
    raise ValueError("no such label: 11")
time.sleep(60)
"""
SAVES = """
import os, signal, time
from pathlib import Path
place = Path(os.environ["GPUCLUSTER_STATE"], "rank-" + os.environ["RANK"])
def save(number, frame):
    time.sleep(6 if os.environ["RANK"] == "0" else 0)  # longer than the 5 s of a Slurm job
    place.write_text("saved")
    raise SystemExit(0)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
time.sleep(120)
"""


def test_ranks_of_two_hosts(tmp_path: Path) -> None:
    channels = {name: {"TrainingInputMode": "File"} for name in ("gpucluster", "train")}
    job = Job(tmp_path, hosts=2, channels=channels)
    ended = job.run("--launcher", "srun", "--ranks-per-node", "2", *program(tmp_path, WRITES))
    assert [code for code, _ in ended] == [0, 0], ended
    assert "[3 127.0.0.2] trained\n" in ended[1][1]
    for rank, host in enumerate(["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]):
        seen = json.loads((job.base(host) / "model" / f"rank-{rank}.json").read_text(encoding="utf-8"))
        assert [seen[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR")] == [
            str(rank),
            str(rank % 2),
            str(rank // 2),
            "4",
            "127.0.0.1",
        ]
        assert (seen["SM_CURRENT_HOST"], seen["GPUCLUSTER_NODE"]) == (host, host)
        assert seen["SM_CHANNELS"] == '["train"]', "programs take each channel for data"
        assert seen["SM_CHANNEL_TRAIN"] == f"{job.base(host)}/input/data/train"
        assert ("GPUCLUSTER_TENSORBOARD" in seen) == (rank == 0)
    assert "127.0.0.2 has written 2 files to" in ended[1][1]
    assert "has written" not in ended[0][1]
    assert job.failure() is None


SAME_NAME = """
import os
from pathlib import Path
Path(os.environ["GPUCLUSTER_STATE"], "checkpoint.pt").write_text(os.environ["RANK"])
"""


def test_hosts_that_write_one_checkpoint(tmp_path: Path) -> None:
    """Their files are as large, so that S3's list cannot tell."""
    ended = Job(tmp_path, hosts=2).run("--launcher", "srun", *program(tmp_path, SAME_NAME))
    assert [code for code, _ in ended] == [0, 0], ended
    assert "warning: 127.0.0.1 and 127.0.0.2 have each written checkpoint.pt into the checkpoints" in ended[0][1]


def test_the_reason_of_a_failure(tmp_path: Path) -> None:
    job = Job(tmp_path, hosts=1)
    ((code, log),) = job.run("--launcher", "srun", "--ranks-per-node", "4", *program(tmp_path, FAILS))
    assert code == 1
    assert job.failure() == "rank 3 on 127.0.0.1 exited with code 1: ValueError: no such label: 11", log


LOSES_ITS_PEER = """
import os, time
if os.environ["RANK"] == "1":
    raise ConnectionResetError("Connection reset by peer")
time.sleep(1)
raise ValueError("no such label: 11")
"""


def test_a_host_whose_rank_lost_its_peer_gives_the_peers_reason(tmp_path: Path) -> None:
    """SageMaker shows the reason of the host that ends first."""
    job = Job(tmp_path, hosts=2)
    ended = job.run("--launcher", "srun", *program(tmp_path, LOSES_ITS_PEER))
    assert [code for code, _ in ended] == [1, 1], ended
    reasons = {job.failure(host) for host in job.hosts}
    assert reasons == {"rank 0 on 127.0.0.1 exited with code 1: ValueError: no such label: 11"}, ended


NO_LAUNCH = "echo 'horovodrun: no common interface' >&2; exit 4"
LISTENS = """exec python3 -m http.server --bind $(sed -n 's/^ListenAddress //p' "$3") $(sed -n 's/^Port //p' "$3")"""
"""In the place of sshd, where nobody logs in: the first host waits until somebody listens."""


def test_all_hosts_give_the_reason_of_a_launcher_that_fails(tmp_path: Path) -> None:
    """It starts the ranks of both from the first."""
    (tmp_path / "bin").mkdir()
    for name, text in {"horovodrun": NO_LAUNCH, "sshd": LISTENS}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    job = Job(tmp_path, hosts=2, path=str(tmp_path / "bin"))
    ended = job.run("--launcher", "horovodrun", *program(tmp_path, "pass"))
    assert [code for code, _ in ended] == [4, 4], ended
    reasons = {job.failure(host) for host in job.hosts}
    assert reasons == {"horovodrun exited with code 4: horovodrun: no common interface"}, ended


def test_the_exit_code_of_a_rank_that_is_killed(tmp_path: Path) -> None:
    job = Job(tmp_path)
    ((code, _),) = job.run("--launcher", "srun", *program(tmp_path, "import os; os.kill(os.getpid(), 11)"))
    assert code == 139
    assert "exited with code 139: killed by SIGSEGV" in (job.failure() or "")


def test_a_failure_is_cut_to_what_sagemaker_shows(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run("--launcher", "srun", *program(tmp_path, "raise ValueError('x' * 3000)"))
    assert len(job.failure() or "") <= 1024


def test_a_stopped_job_saves_first(tmp_path: Path) -> None:
    job = Job(tmp_path)
    started = job.start("127.0.0.1", "--launcher", "srun", "--ranks-per-node", "2", *program(tmp_path, SAVES))
    assert started.stdout
    begun = 0
    while begun < 2:
        begun += "begun" in started.stdout.readline()
    started.send_signal(signal.SIGTERM)
    at = time.monotonic()
    log = started.communicate(timeout=60)[0]
    assert sorted(os.listdir(job.base() / "checkpoints")) == ["rank-0", "rank-1"], log
    assert time.monotonic() - at < 40
    assert job.failure() is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--launcher", "srun"], "there is no command for the ranks: it follows --"),
        (["--ranks-per-node", "0", "--", "true"], "--ranks-per-node is 0, allowed: 1 or more"),
        (["--launcher", "srun", "--", "no-such-program"], "no-such-program"),
    ],
)
def test_what_cannot_start(tmp_path: Path, words: list[str], said: str) -> None:
    job = Job(tmp_path)
    ((code, log),) = job.run(*words)
    assert code
    assert said in (job.failure() or ""), log


def test_a_launcher_that_the_image_lacks(tmp_path: Path) -> None:
    job = Job(tmp_path)
    ((code, _),) = job.run("--launcher", "horovodrun", *program(tmp_path, "pass"), PATH="/usr/bin:/bin")
    assert code == 127
    assert job.failure() == "horovodrun exited with code 127: horovodrun: not found"


def test_outside_of_a_container(tmp_path: Path) -> None:
    job = Job(tmp_path)
    (job.base() / "input" / "config" / "resourceconfig.json").unlink()
    ((code, log),) = job.run("--", "true")
    assert code == 1
    assert "resourceconfig.json: cannot be read" in log
