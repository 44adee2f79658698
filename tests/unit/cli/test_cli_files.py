"""The verbs for files, ports and shells, as far as they go without a cluster."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gpucluster.cli import main

ROOT = Path(__file__).resolve().parents[3]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a cluster file in the current folder."""
    (tmp_path / "cluster.yaml").write_text((ROOT / "cluster.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GPUCLUSTER_CONFIG", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_configuration_is_printed_and_nothing_of_the_users_is_touched(home: Path, capsys: Captured) -> None:
    assert main(["ssh-config"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Host gpucluster-gpucluster *.gpucluster-gpucluster\n  User ubuntu\n")
    assert captured.err == ""
    assert [path.name for path in (home / ".ssh" / "gpucluster" / "gpucluster-gpucluster").iterdir()] == ["id_ed25519"]
    assert not (home / ".ssh" / "config").exists()


def test_the_shells_profile_is_written_to_the_configuration(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("AWS_PROFILE", "two words")
    assert main(["ssh-config"]) == 0
    assert "  ProxyCommand env 'AWS_PROFILE=two words' GPUCLUSTER_USER=ubuntu /" in capsys.readouterr().out


def test_the_configuration_is_written_and_removed(home: Path, capsys: Captured) -> None:
    for _ in range(2):
        assert main(["ssh-config", "--write", "--host", "gpu"]) == 0
    file = home / ".ssh" / "gpucluster" / "gpu" / "config"
    captured = capsys.readouterr()
    assert captured.out == f"{file}\n{file}\n"
    assert captured.err.count("put `Include gpucluster/*/config` before its first line") == 1
    assert captured.err.endswith("the head node: ssh gpu   a running node: ssh train-1.gpu\n")
    assert file.read_text().startswith("Host gpu *.gpu\n")
    assert main(["ssh-config", "--remove", "--host", "gpu"]) == 0
    assert not file.parent.exists()
    assert main(["ssh-config", "--remove", "--host", "gpu"]) == 2
    assert "error: there is no alias gpu" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--host", "gpu"], []])
def test_the_alias_of_another_cluster_is_not_replaced(home: Path, capsys: Captured, options: list[str]) -> None:
    """Names that differ only in their case have one alias, and so have clusters of one name in two accounts."""
    text = (home / "cluster.yaml").read_text()
    other = home / "a folder of 50%" / "cluster.yaml"
    other.parent.mkdir()
    other.write_text(text.replace("name: GpuCluster", "name: gpucluster"))
    assert main(["ssh-config", "--write", *options]) == 0
    (config,) = (home / ".ssh" / "gpucluster").glob("*/config")
    before = config.read_text()
    capsys.readouterr()
    assert main(["-c", str(other), "ssh-config", "--write", *options]) == 2
    said = capsys.readouterr().err
    assert f"the alias {config.parent.name} is that of the cluster in {home}/cluster.yaml, not of {other}" in said
    assert f"--host {config.parent.name}-2" in said and config.read_text() == before
    assert main(["-c", str(other), "ssh-config", "--write", "--host", "second"]) == 0
    assert main(["ssh-config", "--write", *options]) == 0  # again from the same file
    (home / "cluster.yaml").unlink()
    assert main(["-c", str(other), "ssh-config", "--write", *options]) == 0
    assert str(other).replace("%", "%%") in config.read_text()


@pytest.mark.parametrize("name", ["*", "a b", "a.b", "../x", "GPU", "-x", ""])
def test_an_alias_that_ssh_would_misread_is_refused(name: str, capsys: Captured) -> None:
    assert main(["ssh-config", "--host", name]) == 2
    assert f"error: {name!r} cannot be an alias" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cp", "cluster.yaml"], "two paths at least"),
        (["cp", "cluster.yaml", "there"], "one path must be on the cluster, and the other one on this machine"),
        (["cp", ":a", "train-1:b"], "one path must be on the cluster"),
        (["cp", "cluster.yaml", ":a", "."], "one path must be on the cluster"),
        (["cp", "none", ":"], "none: no such file or folder on this machine"),
        (["cp", "folder", ":"], "folder is a folder\nhint: use -r"),
        (["cp", ":a", "none/a"], "none: there is no such folder on this machine"),
        (["cp", ":a", ":b", "cluster.yaml"], "cluster.yaml: there is no such folder on this machine"),
        (["sync", "none", ":"], "none: no such file or folder on this machine"),
        (["sync", ":a", "no/such/folder"], "no/such: there is no such folder on this machine"),
        (["forward", "80a"], "'80a' is not a port"),
        (["forward", "8888:70000"], "'8888:70000' is not a port"),
        (["forward", "8888", "--job", "1", "--node", "train-1"], "--job and --node contradict each other"),
        (
            ["forward", "8888", "--node", "train-9"],
            "no node 'train-9' in the cluster GpuCluster\nhint: its nodes: train-1 to train-4",
        ),
        (
            ["shell", "--node", "train-9"],
            "no node 'train-9' in the cluster GpuCluster\nhint: its nodes: train-1 to train-4",
        ),
        (["shell", "--node", "train"], "no node 'train'"),
        (["shell", "--partition", "big"], "no partition 'big'"),
        (["shell", "--gpus", "5"], "--gpus 5: a node of train (g5.12xlarge) has 4 GPUs"),
        (["fetch", "abc"], "must be a job ID such as"),
        (["fetch", "1", "stat"], "PART: must be all, logs, output or state, got 'stat'"),
    ],
)
def test_wrong_arguments_are_found_before_any_call(
    home: Path, words: list[str], message: str, capsys: Captured
) -> None:
    (home / "folder").mkdir()
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_nobody_else_may_write_what_ssh_reads(home: Path, capsys: Captured) -> None:
    """If the group may write an included file, ssh fails with "Bad owner or permissions" for every host."""
    before = os.umask(0o002)
    try:
        assert main(["ssh-config", "--write"]) == 0
    finally:
        os.umask(before)
    (config,) = (home / ".ssh" / "gpucluster").glob("*/config")
    assert config.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("verb", "program"), [("cp", "scp"), ("sync", "rsync")])
def test_a_program_that_is_missing_here(
    home: Path, verb: str, program: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (home / "bin").mkdir()
    (home / "bin" / "ssh").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert main([verb, "cluster.yaml", ":"]) == 2
    assert f"error: {program} is not installed on this machine\nhint: sudo apt-get" in capsys.readouterr().err


def test_a_dry_run_of_sync_lists_files_on_stdout(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What rsync 3.2.7 --dry-run --itemize-changes prints for a new file."""
    (home / "bin").mkdir()
    rsync = home / "bin" / "rsync"
    rsync.write_text("#!/bin/sh\necho '<f+++++++++ cluster.yaml'\n")
    rsync.chmod(0o755)
    monkeypatch.setenv("PATH", f"{rsync.parent}:{os.environ['PATH']}")
    assert main(["sync", "--dry-run", "cluster.yaml", ":"]) == 0
    assert capfd.readouterr().out == "<f+++++++++ cluster.yaml\n"
    assert main(["sync", "cluster.yaml", ":"]) == 0
    assert capfd.readouterr().out == ""


def test_a_port_that_is_in_use(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert main(["forward", f"{port}:6006"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: port {port} of this machine is in use"
    free, there = hint.removeprefix("hint: the next free port: gpucluster forward ").split(":")
    assert int(free) > port and there == "6006"
