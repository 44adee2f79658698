"""`gpucluster submit --on sagemaker` as users type it. moto stores training jobs, and calls each Completed at once."""

from __future__ import annotations

import json

import boto3
import pytest
from moto import mock_aws

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


@mock_aws
def test_a_job_is_submitted_and_then_skipped(submit, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    s3 = boto3.client("s3", region_name="us-west-2")
    s3.create_bucket(Bucket="bucket-of-mine", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    code, out, err = submit("submit", "job.yaml", "--gpus", "4")
    said = json.loads(out)
    name = said["job_id"]
    assert code == 0
    assert said["folder"] == f"s3://bucket-of-mine/gpucluster/{name}"
    link = f"https://us-west-2.console.aws.amazon.com/sagemaker/home?region=us-west-2#/jobs/{name}"
    assert said["console"] == link
    assert err.splitlines()[-2:] == [f"job {name} submitted: 8 ranks on 2 hosts of ml.g5.12xlarge", link]
    code, out, err = submit("submit", "job.yaml", "--gpus", "4")
    assert json.loads(out) == {"job_id": name, "folder": said["folder"], "name": "train", "skipped": True}
    assert err.splitlines()[-1].startswith(f"skipped: job {name} succeeded with the same code")


def test_a_program_that_is_missing_is_no_job(submit, tmp_path):
    (tmp_path / "train.py").unlink()
    code, out, err = submit("submit", "job.yaml")
    assert (code, out) == (2, "")
    assert "train.py" in err


@pytest.mark.parametrize("option", ["--test-only", "--emit-only=there"])
def test_an_option_of_slurm(submit, option):
    code, _, err = submit("submit", "job.yaml", option)
    assert code == 2
    assert err.startswith(f"error: {option.partition('=')[0]} does not work with --on sagemaker\n")


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
