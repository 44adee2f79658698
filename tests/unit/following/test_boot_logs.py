"""`logs --boot`: from the node if it still runs as it did, else from CloudWatch."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws

from gpucluster.cluster import boot_logs
from gpucluster.errors import UsageError
from gpucluster.following import boot
from tests.in_process import InProcessRemote

RAN = int(time.time()) - 3600
"""CloudWatch takes no event that is older than two weeks."""
AT = 1_764_400_000  # 2025-11-29T07:06:40Z
LOG = "2025-11-29T07:0{}:00Z step=munge status=started\nno time here\n"


@pytest.fixture
def cloud(monkeypatch):
    """CloudWatch with streams as the agent names them: INSTANCE/HOST."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        logs = boto3.client("logs", region_name="us-east-1")
        logs.create_log_group(logGroupName="/gpucluster/lab/boot")
        for stream, at_s, text in (
            ("i-1/train-1", RAN - 500, "the first"),
            ("i-2/train-1", RAN + 500, "launched again\nafterwards"),
            ("i-3/train-10", RAN - 400, "another node"),
        ):
            logs.create_log_stream(logGroupName="/gpucluster/lab/boot", logStreamName=stream)
            event = {"timestamp": at_s * 1000, "message": text}
            logs.put_log_events(logGroupName="/gpucluster/lab/boot", logStreamName=stream, logEvents=[event])
        yield SimpleNamespace(client=lambda service: logs, config=SimpleNamespace(name="lab"))


def test_cloudwatch_has_the_instance_that_ran_then(cloud):
    assert list(boot_logs.kept(cloud, "train-1", RAN)) == ["the first"]
    assert list(boot_logs.kept(cloud, "train-1", None)) == ["launched again", "afterwards"]
    assert boot_logs.kept(cloud, "train-1", RAN - 1000) is None
    assert boot_logs.kept(cloud, "train", None) is None


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job that started at AT on train-1 and train-2. ssh reaches the nodes whose logs are in the folder `up`."""
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\nfor word; do [ -e "{tmp_path}/up/$word" ] && exec cat "{tmp_path}/up/$word"; done\nexit 255\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "up").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = {"node_list": ["train-1", "train-2"], "started_at": "2025-11-29T07:06:40Z"}
    monkeypatch.setattr(boot.jobs, "require", lambda remote, job_id: None)
    monkeypatch.setattr(boot.jobs, "result", lambda remote, job_id: json.loads(json.dumps(result)))
    return tmp_path / "up"


def test_a_node_that_runs_has_its_own_log(job):
    (job / "train-1").write_text(LOG.format(1))
    found = list(boot.lines(InProcessRemote(), "12", None, lambda node, at_s: None))
    assert found == [
        "[train-1] 2025-11-29T07:01:00Z step=munge status=started",
        "[train-1] no time here",
        "[train-2] no boot log: the node does not run, and CloudWatch has none of it",
    ]


def test_a_node_that_was_launched_again_is_not_the_jobs(job):
    (job / "train-1").write_text(LOG.format(9))
    asked = []

    def kept(node, at_s):
        asked.append((node, at_s))
        return iter(["from CloudWatch"])

    assert list(boot.lines(InProcessRemote(), "12", "train-1", kept)) == ["[train-1] from CloudWatch"]
    assert asked == [("train-1", AT)]


def test_a_node_that_the_job_never_had(job):
    with pytest.raises(UsageError, match="job 12 had no node train-3"):
        list(boot.lines(InProcessRemote(), "12", "train-3", lambda node, at_s: None))
