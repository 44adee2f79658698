"""Jobs with their own packages, on booted nodes: the head node installs them, ranks on every node find them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bed import Bed, Submitted, wait_for

from tests.wheels import wheel

SUBJECTS = [
    "gpucluster/cli/env.py",
    "gpucluster/submission/packages.py",
    "gpucluster/submission/requirements.py",
    "gpucluster_job/packages/*",
]
COVERED_BY = (
    "test_packages_overlay.py, test_packages_from_s3.py and test_packages_cached.py with the real pip; test_packages.py"
)
SHOW = "import greeting, torch; print('greeting', greeting.version, 'torch', torch.__version__)"
JOB = {"nodes": 2, "gpus_per_node": 1, "launcher": "srun", "command": ["python", "-c", SHOW]}


@pytest.fixture(scope="module", autouse=True)
def torch(cluster: Bed) -> None:
    assert cluster.gpucluster("env", "build", "torch", timeout_s=300).returncode == 0


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    wheel(folder, "greeting", "1.5", "torch>=2")
    wheel(folder, "older", "1.0", "torch==2.3.0")
    return folder


def run(cluster: Bed, workdir: Path, **keys: object) -> Submitted:
    (workdir / "job.yaml").write_text(json.dumps(JOB | {"requirements": "./greeting-1.5-py3-none-any.whl"} | keys))
    return cluster.submit(str(workdir / "job.yaml"), "--follow", timeout_s=300)


def folders(cluster: Bed) -> list[dict[str, object]]:
    done = cluster.gpucluster("env", "list", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["packages"]
    return found


def test_packages_are_installed_once_and_found_on_every_node(cluster: Bed, workdir: Path) -> None:
    first = run(cluster, workdir)
    assert first.exit_code == 0, first.told
    assert "the head node is installing its packages while its nodes boot" in first.told
    torch = cluster.ssh(
        "/home/gpucluster/envs/torch/bin/python", "-c", "import torch; print(torch.__version__)"
    ).strip()
    nodes = first.result["node_list"]
    assert len(nodes) == 2
    for node in nodes:
        assert [line for line in first.log if line.endswith(f"{node}] greeting 1.5 torch {torch}")], first.log
    (before,) = (each for each in folders(cluster) if each["requirements"] == ["./greeting-1.5-py3-none-any.whl"])
    assert (before["state"], before["jobs"]) == ("ready", [])
    made = cluster.ssh("stat", "--format=%W %U", str(before["folder"]))
    assert made.split()[1] == "ubuntu"
    again = run(cluster, workdir)
    assert again.exit_code == 0 and "installs" not in again.told
    assert [line for line in again.log if "[packages]" in line and str(before["folder"]) not in line] == []
    assert cluster.ssh("stat", "--format=%W %U", str(before["folder"])) == made


def test_another_torch_is_refused_before_the_job_is_submitted(cluster: Bed, workdir: Path) -> None:
    (workdir / "job.yaml").write_text(json.dumps(JOB | {"requirements": "./older-1.0-py3-none-any.whl"}))
    jobs = cluster.ssh("squeue", "--noheader", "--all", "--format=%i")
    done = cluster.gpucluster("submit", str(workdir / "job.yaml"), timeout_s=300)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "older 1.0 depends on torch==2.3.0; the environment torch has torch 2.13.0" in done.stderr
    assert cluster.ssh("squeue", "--noheader", "--all", "--format=%i") == jobs


def test_a_setup_that_fails_ends_the_job_and_is_pruned(cluster: Bed, workdir: Path) -> None:
    failed = run(cluster, workdir, setup=["echo half-way", "ls nowhere"])
    assert failed.exit_code == 4
    assert "setup: ls nowhere: exit code 2" in failed.result["reason"]
    assert [line for line in failed.log if line.startswith("[packages] ls: cannot access 'nowhere'")], failed.log
    states = {each["state"]: str(each["folder"]) for each in folders(cluster)}
    assert "failed" in states
    assert cluster.ssh("sh", "-c", f"ls -d {states['failed']} 2>&1 || true").startswith("ls: cannot access")
    done = cluster.gpucluster("env", "prune")
    assert done.returncode == 0, done.stderr
    assert states["failed"] in json.loads(done.stdout)["deleted"]
    assert folders(cluster) == []


def log_of_head(cluster: Bed) -> str:
    """What the head node said when it last installed packages; it stores them after jobs use them."""
    return cluster.ssh("sh", "-c", "cat $(ls -td /home/ubuntu/jobs/*/packages/log.txt | head -n 1)")


def test_packages_are_stored_and_restored_after_they_are_pruned(cluster: Bed, workdir: Path) -> None:
    """The second job's code has the wheel too, but then the log would have pip's lines."""
    text = cluster.config.read_text()
    cluster.client("s3").create_bucket(Bucket="kept-packages")
    cluster.config.write_text(text + "\nsoftware: {cache: s3://kept-packages/envs}\n")
    try:
        cluster.up()
        assert cluster.gpucluster("env", "prune").returncode == 0
        first = run(cluster, workdir)
        assert first.exit_code == 0 and "is installing its packages" in first.told, first.told
        stored_to = "stored to s3://kept-packages/envs/packages/torch-"
        wait_for("the head node to store the packages", lambda: stored_to in log_of_head(cluster), 120)
        (stored,) = cluster.client("s3").list_objects_v2(Bucket="kept-packages", Prefix="envs/packages/")["Contents"]
        assert cluster.gpucluster("env", "prune").returncode == 0
        assert folders(cluster) == []
        again = run(cluster, workdir)
        assert again.exit_code == 0 and "is restoring its packages from software.cache" in again.told, again.told
        said = log_of_head(cluster) + "".join(again.log)  # whichever was first: the head node, or a node that was up
        assert f"restored from s3://kept-packages/{stored['Key']}" in said and "Successfully installed" not in said
        assert [line for line in again.log if "greeting 1.5 torch" in line], again.log
    finally:
        cluster.config.write_text(text)
        cluster.up()
