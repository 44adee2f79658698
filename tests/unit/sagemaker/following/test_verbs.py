"""Verbs of both targets as users type them. The cluster of these tests was never created; training jobs are played."""

from __future__ import annotations

import json

import pytest

from gpucluster.cli.frame import target
from gpucluster.head.arrays import JOB_ID

STARTING = "digits-20230405-152957"


def test_jobs_without_a_cluster(call, has, record):
    has(record("completed"), record("starting"))
    code, out, err = call("jobs")
    assert (code, err) == (0, "")
    first, second, third = out.splitlines()
    assert first.split() == ["job", "target", "name", "state", "nodes", "time", "USD", "why"]
    assert second.split()[:7] == ["digits-20220216-171413", "sagemaker", "digits", "COMPLETED", "2", "50:30", "6.44"]
    assert "digits  PENDING    1" in third
    assert "starts its instances, " in third


def test_jobs_of_a_cluster_that_is_away(call, has, record, cluster):
    has(record("starting"))
    code, out, err = call("jobs", "--json")
    assert code == 0
    assert [row["job_id"] for row in json.loads(out)] == [STARTING]
    assert err == "warning: the jobs of the cluster are not listed: the cluster c in us-east-1 does not exist\n"


def test_jobs_of_another_target(call, has, tmp_path):
    (tmp_path / "sagemaker.yaml").rename(tmp_path / "other.yaml")
    has()
    assert call("jobs", "-c", "other.yaml") == (0, "", "no jobs yet\n")


def test_a_list_of_both(call, has, record, cluster, monkeypatch):
    row = {"job_id": "7", "name": "digits", "state": "RUNNING", "nodes": 2, "elapsed": "1:02", "reason": ""}
    monkeypatch.setattr("gpucluster.cli.jobs._of_cluster", lambda context, count: [row])
    has(record("starting"))
    code, out, err = call("jobs")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["7", "cluster"], [STARTING, "sagemaker"]]


@pytest.mark.parametrize(
    ("name", "valid"), [("12", True), ("12_3", True), (STARTING, True), ("abc", False), ("7x", False)]
)
def test_names_of_jobs(name, valid):
    assert bool(JOB_ID.fullmatch(name) or target.NAME.fullmatch(name)) is valid


def test_cancel(call, account, has, record):
    has(record("starting"), record("completed"))
    account.answers["StopTrainingJob"] = lambda asked: {}
    code, out, err = call("cancel", STARTING, "digits-20220216-171413")
    assert code == 0
    assert json.loads(out) == {"cancelled": [STARTING]}
    assert err.splitlines() == [
        f"job {STARTING} is being stopped: its ranks have 120 s, then it is killed",
        "job digits-20220216-171413 has already ended",
    ]


def test_none_is_stopped_if_one_is_unknown(call, has, record):
    has(record("starting"))
    code, out, err = call("cancel", STARTING, "digits-20230405-000000")
    assert (code, json.loads(out)) == (2, {"cancelled": []})
    assert err.startswith("error: SageMaker has no training job digits-20230405-000000 in us-east-1")


def test_a_training_job_without_a_target(call, tmp_path):
    (tmp_path / "sagemaker.yaml").unlink()
    code, _, err = call("logs", STARTING)
    assert code == 2
    assert f"{STARTING} is the name of a training job on SageMaker, and no sagemaker.yaml is here" in err


def test_logs_of_the_newest_job(call, account, has, record):
    has(record("starting"), record("completed"))
    account.answers["DescribeLogStreams"] = lambda asked: {"logStreams": []}
    assert call("logs") == (0, "", f"job {STARTING} starts its instances: no line yet\n")


def test_a_followed_job_that_fails(call, account, has, record, monkeypatch):
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.POLL_S", 0)
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.JITTER_S", 0)
    failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed", "FailureReason": "AlgorithmError: no data"}
    has(record("completed", **failed))
    account.answers["DescribeLogStreams"] = lambda asked: {"logStreams": []}
    code, _, err = call("logs", "-f", "digits-20220216-171413")
    assert code == 4
    assert "error: job digits-20220216-171413 failed: AlgorithmError: no data" in err


def test_submit_follows_the_job(call, account, has, record, monkeypatch, tmp_path):
    def create(asked):
        has(record("completed", TrainingJobName=asked["TrainingJobName"]))
        return {"TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/x"}

    def events(asked):
        line = {"timestamp": 1, "message": "[0 algo-1] done"}
        return {"events": [] if "nextToken" in asked else [line], "nextForwardToken": "f/1"}

    has()
    account.answers |= {"PutObject": lambda asked: {}, "CreateTrainingJob": create, "GetLogEvents": events}
    account.answers["DescribeLogStreams"] = lambda asked: {
        "logStreams": [{"logStreamName": f"{asked['logStreamNamePrefix']}algo-1-1645031627"}]
    }
    monkeypatch.setattr("gpucluster.sagemaker.found.Found.connect", lambda found: account)
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.POLL_S", 0)
    monkeypatch.setattr("gpucluster.sagemaker.following.logs.JITTER_S", 0)
    (tmp_path / "train.py").write_text("print()\n")
    words = ("--name", "digits", "--launcher", "torchrun", "--framework", "torch", "--", "python", "train.py")
    code, out, err = call("submit", "--on", "sagemaker", "--follow", *words)
    assert code == 0, err
    line, last = out.splitlines()
    assert line == "[0 algo-1] done"
    assert json.loads(last).items() >= {"state": "COMPLETED", "reason": ""}.items()
    assert json.loads(last)["job_id"].startswith("digits-20")
