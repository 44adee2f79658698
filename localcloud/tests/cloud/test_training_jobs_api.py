"""Training jobs of a cloud without machines: everything but their program, with the role's permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.testing import patience

ROLE = "arn:aws:iam::123456789012:role/api-trainer"
TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@pytest.fixture(scope="module")
def sagemaker(control_plane: Any) -> Iterator[Any]:
    iam, s3 = control_plane.client("iam"), control_plane.client("s3")
    iam.create_role(RoleName="api-trainer", AssumeRolePolicyDocument=document(TRUST))
    allowed = {"Effect": "Allow", "Action": ["s3:List*", "s3:PutObject"], "Resource": "*"}
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::api-jobs/in/*"}
    iam.put_role_policy(RoleName="api-trainer", PolicyName="p", PolicyDocument=document(allowed, read))
    s3.create_bucket(Bucket="api-jobs")
    for key in ("in/1", "secret/1", "bad//1"):
        s3.put_object(Bucket="api-jobs", Key=key, Body=b"1")
    yield control_plane.client("sagemaker")
    iam.delete_role_policy(RoleName="api-trainer", PolicyName="p")
    iam.delete_role(RoleName="api-trainer")


def run(sagemaker: Any, name: str, prefix: str, **output: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://api-jobs/{prefix}/"}
    sagemaker.create_training_job(
        TrainingJobName=name,
        RoleArn=ROLE,
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/x:1", "TrainingInputMode": "File",
        },
        InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        OutputDataConfig={"S3OutputPath": "s3://api-jobs/out"} | output,
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )  # fmt: skip

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
        return found if found["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    found: dict[str, Any] = patience.wait_for(f"the end of {name}", ended, 30, 0.1)
    return found


def test_a_job_without_machines_completes_and_is_listed(sagemaker: Any, control_plane: Any) -> None:
    for number in range(3):
        ended = run(sagemaker, f"listed-{number}", "in")
        assert ended["TrainingJobStatus"] == "Completed", ended
    assert ended["ModelArtifacts"]["S3ModelArtifacts"] == "s3://api-jobs/out/listed-2/output/model.tar.gz"
    assert control_plane.client("s3").head_object(Bucket="api-jobs", Key="out/listed-2/output/model.tar.gz")
    pages = sagemaker.get_paginator("list_training_jobs").paginate(NameContains="listed", MaxResults=2)
    found = [[job["TrainingJobName"] for job in page["TrainingJobSummaries"]] for page in pages]
    assert found == [["listed-0", "listed-1"], ["listed-2"]]
    with pytest.raises(sagemaker.exceptions.ClientError, match="the training job is in status Completed"):
        sagemaker.stop_training_job(TrainingJobName="listed-0")


@pytest.mark.parametrize(
    ("name", "prefix", "reason"),
    [
        ("denied", "secret", "ClientError: Data download failed:Unable to download object s3://api-jobs/secret/1 "
                             "(AccessDenied: Access Denied)"),
        ("slashes", "bad", "ClientError: Data download failed:Key bad//1 has an illegal char sub-sequence '//' in it"),
    ],
)  # fmt: skip
def test_a_job_whose_data_cannot_be_read_fails_in_awss_words(
    sagemaker: Any, name: str, prefix: str, reason: str
) -> None:
    ended = run(sagemaker, name, prefix)
    assert (ended["TrainingJobStatus"], ended["FailureReason"]) == ("Failed", reason)
    assert [each["Status"] for each in ended["SecondaryStatusTransitions"]] == ["Starting", "Downloading", "Failed"]
