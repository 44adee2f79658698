"""Verbs of both targets as users type them. The cluster of these tests was never created; training jobs are played."""

from __future__ import annotations

import json

import pytest
from played import TARGET

from gpucluster.cli import main
from gpucluster.cli.frame import target
from gpucluster.errors import NotDeployedError

CLUSTER = "name: c\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
STARTING = "digits-20230405-152957"


@pytest.fixture
def call(account, tmp_path, monkeypatch, capsys):
    """call(*words): exit code, stdout and stderr, in a folder with sagemaker.yaml and no cluster.yaml."""
    (tmp_path / "sagemaker.yaml").write_text(TARGET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpucluster.sagemaker.following.account.Account", lambda found: account)

    def run(*words):
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster.yaml whose cluster does not exist."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    def away(*_):
        raise NotDeployedError("the cluster c in us-east-1 does not exist")

    monkeypatch.setattr("gpucluster.cluster.aws.Aws.door", away)


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
    assert bool(target.JOB_ID.fullmatch(name) or target.NAME.fullmatch(name)) is valid
