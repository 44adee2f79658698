"""Plain OpenSSH, scp, rsync and forwarded ports, through the Instance Connect Endpoint to booted nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import ROOT, Bed, interrupt, wait_for

from localcloud.testing.ports import two_free_ports

ALIAS = "gpucluster-gpucluster"


@pytest.fixture
def config(cluster: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the output of `ssh-config`; the key and the host keys are beside it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    done = cluster.gpucluster("ssh-config")
    assert done.returncode == 0, done.stderr
    file = tmp_path / "ssh_config"
    file.write_text(done.stdout)
    return file


def plain(cluster: Bed, *argv: str | Path) -> str:
    """Runs a program that does not know GpuCluster. Its ProxyCommand finds our modules here."""
    environment = cluster.environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(cluster: Bed, job_id: str) -> dict[str, str]:
    jobs: list[dict[str, str]] = json.loads(cluster.gpucluster("jobs", "--json").stdout)
    (found,) = [each for each in jobs if each["job_id"] == job_id]
    return found


@pytest.fixture(scope="module")
def job(cluster: Bed) -> Iterator[tuple[str, str]]:
    """A job's number and its node. The job writes a file and serves its folder on the node's loopback."""
    script = "mkdir -p out && echo written >out/model; exec python3 -m http.server 8123 --bind 127.0.0.1"
    words = ("--name", "served", "--ntasks-per-node", "1", "--launcher", "srun", "--", "bash", "-ec", script)
    job_id = str(cluster.submit(*words).last["job_id"])

    def node() -> str | None:
        found = listed(cluster, job_id)
        return found["node_list"] if found["state"] == "RUNNING" else None

    yield job_id, wait_for("the job runs", node, 300)
    cluster.gpucluster("cancel", job_id)


def test_ssh_and_scp_reach_the_head_node(cluster: Bed, config: Path, tmp_path: Path) -> None:
    assert plain(cluster, "ssh", "-F", config, ALIAS, "hostname; whoami") == "head\nubuntu\n"
    data = os.urandom(3_000_000)
    (tmp_path / "there").write_bytes(data)
    plain(cluster, "scp", "-F", config, tmp_path / "there", f"{ALIAS}:scp test")
    plain(cluster, "scp", "-F", config, f"{ALIAS}:scp test", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


def test_ssh_reaches_a_node_inside_a_job(cluster: Bed, config: Path, job: tuple[str, str]) -> None:
    assert plain(cluster, "ssh", "-F", config, f"{job[1]}.{ALIAS}", "hostname; whoami") == f"{job[1]}\nubuntu\n"


def test_a_node_without_an_instance_is_named(cluster: Bed, config: Path) -> None:
    done = cluster.gpucluster("cp", "train-99:x", ".")
    assert done.returncode == 3
    assert done.stderr.startswith("error: the node train-99 has no running instance\nhint: ")


def test_cp_copies_files_to_the_cluster_and_back(cluster: Bed, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "it's here").write_text("1")
    there = cluster.gpucluster("cp", "-r", str(tmp_path / "a"), ":cp-test")
    assert (there.returncode, there.stdout, there.stderr) == (0, "", "")
    back = cluster.gpucluster("cp", "head:cp-test/b/it's here", str(tmp_path))
    assert (back.returncode, (tmp_path / "it's here").read_text()) == (0, "1"), back.stderr


@pytest.mark.parametrize("verb", ["cp", "sync"])
def test_a_missing_path_is_reported(cluster: Bed, verb: str, tmp_path: Path) -> None:
    done = cluster.gpucluster(verb, ":no-such", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: no such file on the head node: ") and "no-such" in done.stderr
    assert done.stderr.count("\n") == 1


def test_sync_copies_changed_files_to_the_cluster_and_back(cluster: Bed, tmp_path: Path) -> None:
    here, back = tmp_path / "here", tmp_path / "back"
    (here / "deep").mkdir(parents=True)
    for name in ("a", "deep/b", "c.o"):
        (here / name).write_text(name)
    assert cluster.gpucluster("sync", "--exclude", "*.o", f"{here}/", ":sync-test").returncode == 0
    (here / "a").unlink()
    done = cluster.gpucluster("sync", "--delete", "--exclude", "*.o", f"{here}/", ":sync-test")
    assert done.returncode == 0, done.stderr
    assert cluster.gpucluster("sync", ":sync-test/", str(back)).returncode == 0
    assert sorted(str(path.relative_to(back)) for path in back.rglob("*") if path.is_file()) == ["deep/b"]


def test_a_jobs_port_is_forwarded_and_its_folder_is_fetched(cluster: Bed, job: tuple[str, str], tmp_path: Path) -> None:
    port, taken = two_free_ports()
    forward = cluster.start("forward", f"{port}:8123", "--job", job[0])
    try:
        assert forward.stdout is not None
        assert f"http://localhost:{port}\n" in iter(forward.stdout.readline, "")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/out/model", timeout=60) as answer:
            assert answer.read() == b"written\n"
        in_use = cluster.gpucluster("forward", f"{port}:8123", "--job", job[0])
        assert in_use.returncode == 2
        assert in_use.stderr.startswith(f"error: port {port} of this machine is in use\nhint: the next free port: ")
    finally:
        interrupt(forward)
        forward.communicate(timeout=60)
    assert forward.returncode == 0
    fetched = cluster.gpucluster("fetch", job[0], "--to", str(tmp_path / "all"))
    assert (fetched.returncode, fetched.stdout) == (0, f"{tmp_path}/all\n"), fetched.stderr
    assert "fetch again when it has ended" in fetched.stderr
    found = {path.name for path in (tmp_path / "all").iterdir()}
    assert {"log.txt", "job.sbatch", "job.yaml", "code"} <= found and not {"lib", "bin"} & found
    assert (tmp_path / "all" / "code" / "out" / "model").read_text() == "written\n"
    for part, names in (("logs", {"log.txt"}), ("output", {"code"})):
        assert cluster.gpucluster("fetch", job[0], part, "--to", str(tmp_path / part)).returncode == 0
        assert {path.name for path in (tmp_path / part).iterdir()} == {".gitignore", *names}


def test_a_shell_on_a_node_is_a_job_that_ends_with_it(cluster: Bed, job: tuple[str, str]) -> None:
    """The node is that of a job that has ended. Without a terminal, the shell reads its commands from stdin."""
    words = [sys.executable, "-m", "gpucluster.cli", "shell", "--node", job[1], "--gpus", "1"]
    environment = cluster.environment() | {"PYTHONPATH": str(ROOT)}
    cluster.gpucluster("cancel", job[0])
    done = subprocess.run(
        words, env=environment, input="hostname; echo $SLURM_JOB_ID $SLURM_CPUS_PER_TASK; exit 3\n",
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    node, numbers = done.stdout.splitlines()[-2:]
    assert node == job[1]
    job_id, cpus = numbers.split()
    assert cpus == "12", "a quarter of the node's: it has four GPUs"
    wait_for("its epilog", lambda: listed(cluster, job_id)["state"] == "FAILED", 60)
    assert listed(cluster, job_id)["name"] == "shell"
