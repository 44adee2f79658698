"""`gpucluster fetch` of a training job. moto has the bucket."""

from __future__ import annotations

import json
import os

import boto3
import pytest
from moto import mock_aws

NAME = "digits-20220216-171413"
BUCKET = "bucket-of-mine"


@pytest.fixture
def s3(account, has, record, monkeypatch):
    """The bucket with a job's objects; the account of the tests answers all other calls."""
    has(record("completed", CheckpointConfig={"S3Uri": f"s3://{BUCKET}/gpucluster/tasks/mnist/digits"}))
    account.answers["DescribeLogStreams"] = lambda asked: {"logStreams": []}
    with mock_aws():
        made = boto3.Session("one", "two", region_name="us-east-1").client("s3")
        made.create_bucket(Bucket=BUCKET)
        account._clients["s3"] = made
        for key in (
            f"{NAME}/output/model.tar.gz",
            f"{NAME}/tensorboard/events",
            f"{NAME}0/x",
            "tasks/mnist/digits/step-7",
        ):
            made.put_object(Bucket=BUCKET, Key=f"gpucluster/{key}", Body=key.encode())
        yield made


def files(folder):
    return sorted(
        str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and each.name != ".gitignore"
    )


@pytest.mark.parametrize(
    ("part", "there"),
    [
        ("all", ["log.txt", "output/model.tar.gz", "result.json", "tensorboard/events"]),
        ("output", ["output/model.tar.gz"]),
        ("logs", ["log.txt", "result.json"]),
        ("state", ["step-7"]),
    ],
)
def test_parts(call, s3, tmp_path, part, there):
    code, out, err = call("fetch", NAME, part)
    assert (code, out, err) == (0, f"{NAME}\n", "")
    assert files(tmp_path / NAME) == there


def test_what_sagemaker_says_of_it(call, s3, tmp_path):
    call("fetch", NAME, "logs", "--to", "here")
    said = json.loads((tmp_path / "here/result.json").read_text())
    assert (said["TrainingJobStatus"], said["TrainingEndTime"]) == ("Completed", "2022-02-16T18:06:18.005000+00:00")


def test_only_what_is_new_is_copied(call, s3, tmp_path):
    call("fetch", NAME)
    model, events = tmp_path / NAME / "output/model.tar.gz", tmp_path / NAME / "tensorboard/events"
    model.write_text("mine")
    os.utime(events, (1, 1))
    events.write_text("old")
    os.utime(events, (1, 1))
    assert call("fetch", NAME)[0] == 0
    assert (model.read_text(), events.read_text()) == ("mine", f"{NAME}/tensorboard/events")


def test_a_folder_with_other_files(call, s3, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here/mine").touch()
    code, _, err = call("fetch", NAME, "--to", "here")
    assert code == 2
    assert "has files that fetch did not bring" in err


def test_a_key_that_leaves_the_folder(call, s3):
    s3.put_object(Bucket=BUCKET, Key=f"gpucluster/{NAME}/../../x", Body=b"")
    code, _, err = call("fetch", NAME)
    assert code == 2
    assert f"{NAME}/../../x cannot be a file below a folder" in err


def test_a_job_without_state(call, s3, has, record):
    has(record("completed"))
    code, _, err = call("fetch", NAME, "state")
    assert code == 2
    assert f"job {NAME} keeps no state" in err
