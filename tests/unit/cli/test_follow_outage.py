"""`logs -f` that is started while AWS or the head node does not answer."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucluster import account
from gpucluster.cli import main
from gpucluster.cli.frame import connection
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster import aws
from gpucluster.contexts.probe import Facts
from gpucluster.contexts.store import Context
from gpucluster.errors import AccessError, AwsError, CloudError
from gpucluster.following import jobs, patience
from tests.in_process import InProcessRemote

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
THROTTLED = AwsError("DescribeStacks: Throttling: Rate exceeded", "try again in a minute")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its head node is this machine, with the completed job 12. `refused` are AWS's first answers."""
    (tmp_path / "bin").mkdir()
    squeue = tmp_path / "bin/squeue"
    squeue.write_text("#!/bin/sh\necho '12|COMPLETED|train|1|train-1|0:04|UNLIMITED|x|x|raise|None'\n")
    squeue.chmod(0o755)
    folder = tmp_path / "jobs/by-id/12"
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("[0 train-1] step 1\n")
    (folder / "result.json").write_text('{"exit_code": 0}')
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(jobs, "POLL_S", 0.01)
    monkeypatch.setattr(patience, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(connection, "SshRemote", lambda door, find_again: InProcessRemote())
    return tmp_path


def refuse(monkeypatch: pytest.MonkeyPatch, *refused: BaseException) -> None:
    left = list(refused)

    def door() -> None:
        if left:
            raise left.pop(0)

    monkeypatch.setattr(aws, "connect", lambda config, file: SimpleNamespace(door=door))


def logs(cluster: Path, *words: str) -> int:
    return main(["-c", str(cluster / "cluster.yaml"), "logs", *words])


def test_it_waits_until_aws_answers(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(monkeypatch, THROTTLED, THROTTLED)
    assert logs(cluster, "-f", "12") == 0
    out, err = capsys.readouterr()
    assert out == "[0 train-1] step 1\n"
    assert err.splitlines() == [
        "DescribeStacks: Throttling: Rate exceeded (try again in a minute); the head node is asked until it answers",
        "the head node answers again",
        "job 12 completed",
    ]


@pytest.mark.parametrize(
    ("words", "error"), [(["-f", "12"], AccessError("the token has expired")), (["12"], THROTTLED)]
)
def test_it_ends_if_aws_refuses_the_user_or_without_follow(
    cluster: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    error: CloudError,
) -> None:
    refuse(monkeypatch, error)
    assert logs(cluster, *words) == 3
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", error.render())


def test_ctrl_c_ends_the_wait_without_an_error(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, THROTTLED, KeyboardInterrupt())
    assert logs(cluster, "-f", "12") == 0


def test_a_login_node_that_refuses_the_user_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ssh` ends with 255 if it cannot log in (ssh(1))."""
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\necho 'me@login: Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    chosen = Context(
        "uni", "ssh://login", "/home/me/jobs", Facts("/home/me", "me", "/usr/bin", "24.11", "3", "nfs", True, False)
    )
    monkeypatch.setattr(CliContext, "chosen_context", lambda self: chosen)
    assert main(["logs", "-f", "12"]) == 3
    assert "Permission denied" in capsys.readouterr().err
