"""An account with training jobs, as played.py answers for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from played import TARGET, Played, Refusal, described

from gpucluster.cli import main
from gpucluster.errors import NotDeployedError

CLUSTER = "name: c\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"


@pytest.fixture
def account() -> Played:
    return Played()


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    return described


@pytest.fixture
def has(account: Played) -> Callable[..., None]:
    """has(answer, …): the account has these training jobs."""

    def set_jobs(*found: dict[str, Any]) -> None:
        by_name = {each["TrainingJobName"]: each for each in found}

        def describe(asked: dict[str, Any]) -> dict[str, Any]:
            if asked["TrainingJobName"] not in by_name:
                raise Refusal("ValidationException", "Requested resource not found.")
            return by_name[asked["TrainingJobName"]]

        def listed(asked: dict[str, Any]) -> dict[str, Any]:
            members = ("TrainingJobName", "TrainingJobArn", "CreationTime", "TrainingJobStatus")
            newest = sorted(found, key=lambda each: each["CreationTime"], reverse=True)
            return {"TrainingJobSummaries": [{key: each[key] for key in members} for each in newest]}

        account.answers |= {"DescribeTrainingJob": describe, "ListTrainingJobs": listed}

    return set_jobs


@pytest.fixture
def call(account, tmp_path, monkeypatch, capsys):
    """call(*words): exit code, stdout and stderr, in a folder with sagemaker.yaml and no cluster.yaml."""
    (tmp_path / "sagemaker.yaml").write_text(TARGET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpucluster.sagemaker.following.account.Account", lambda found, make: account)

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
