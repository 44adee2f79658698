"""`gpucluster submit --on sagemaker --dry-run` as users type it. No call reaches AWS: the job's data is not in S3."""

from __future__ import annotations

import json

import pytest

from gpucluster.cli import main
from gpucluster.sagemaker.limits import faults

TARGET = """\
region: us-west-2
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.g5.12xlarge
"""


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    (tmp_path / "sagemaker.yaml").write_text(TARGET)
    (tmp_path / "job.yaml").write_text("name: train\nnodes: 2\npartition: train\ncommand: [python, train.py]\n")
    (tmp_path / "train.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main([*words, "--on", "sagemaker"])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_request_alone_is_on_stdout(submit):
    code, out, err = submit("submit", "job.yaml", "--nodes", "3", "--time", "90m", "--dry-run")
    request = json.loads(out)
    assert code == 0
    assert list(faults(request)) == []
    assert request["TrainingJobName"].startswith("train-20")
    assert request["ResourceConfig"]["InstanceCount"] == 3
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 5400}
    assert err == "warning: partition is left out: instance_type in sagemaker.yaml chooses the machines\n"


def test_another_file(submit, tmp_path):
    (tmp_path / "other.yaml").write_text(TARGET.replace("us-west-2", "eu-west-1"))
    _, out, _ = submit("-c", "other.yaml", "submit", "job.yaml", "--dry-run")
    assert ".eu-west-1." in json.loads(out)["AlgorithmSpecification"]["TrainingImage"]


def test_nothing_is_submitted(submit):
    code, out, err = submit("submit", "job.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("error: --on sagemaker: GpuCluster submits no training jobs\nhint: --dry-run")


def test_a_refused_key_is_shown_in_its_line(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nsecrets: [TOKEN]\n")
    code, out, err = submit("submit", "job.yaml", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("job.yaml:2:1: error: secrets: a job on SageMaker cannot have this key\n")


def test_no_sagemaker_yaml(submit, tmp_path):
    (tmp_path / "sagemaker.yaml").unlink()
    code, _, err = submit("submit", "job.yaml", "--dry-run")
    assert code == 2
    assert err.startswith("sagemaker.yaml: error: no such file\n  hint: write one, or name it with -c")
    (tmp_path / "cluster.yaml").write_text("name: a\nregion: us-east-1\npartitions: []\n")
    assert "this is a cluster file" in submit("-c", "cluster.yaml", "submit", "job.yaml", "--dry-run")[2]
