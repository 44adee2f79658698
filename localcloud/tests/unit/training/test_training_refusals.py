"""What CreateTrainingJob and the other calls refuse, in AWS's words; quotas in Service Quotas; tags."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcloud.faults import parse
from localcloud.tests.in_process import InProcess, refusal
from localcloud.tests.refusal_cases import ACCOUNT, allow, document, new
from localcloud.training import quotas

Request = dict[str, Any]
Change = Callable[[Request], Any]
BUCKET, FAR, EMPTY = (f"{kind}-{new()}".lower() for kind in ("here", "far", "empty"))
GPUS = "ml.p5.48xlarge for training job usage"


def role(cloud: InProcess, service: str, *actions: str) -> str:
    name, iam = new(), cloud.client("iam")
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    made: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(trust))["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=document(allow(Action=list(actions))))
    return made


@pytest.fixture(scope="module")
def roles(cloud: InProcess) -> dict[str, str]:
    s3 = cloud.client("s3")
    for bucket in (BUCKET, EMPTY):
        s3.create_bucket(Bucket=bucket)
    s3.create_bucket(Bucket=FAR, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for bucket in (BUCKET, FAR):
        s3.put_object(Bucket=bucket, Key="in/1", Body=b"1")
    return {
        "trainer": role(cloud, "sagemaker.amazonaws.com", "s3:*"),
        "blind": role(cloud, "sagemaker.amazonaws.com", "s3:GetObject"),
        "of ec2": role(cloud, "ec2.amazonaws.com", "s3:*"),
    }


def request(role_arn: str) -> Request:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/in/"}
    return {
        "TrainingJobName": new(),
        "RoleArn": role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8",
            "TrainingInputMode": "File",
        },
        "InputDataConfig": [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }


def put(path: str, value: Any) -> Change:
    def change(given: Request) -> None:
        *above, last = path.split(".")
        held: Any = given
        for part in above:
            held = held[int(part)] if part.isdigit() else held.setdefault(part, {})
        held[int(last) if last.isdigit() else last] = value

    return change


def more_channels(given: Request) -> None:
    first = given["InputDataConfig"][0]
    given["InputDataConfig"] = [first | {"ChannelName": f"train_{number}"} for number in range(21)]


def twice(given: Request) -> None:
    given["InputDataConfig"] *= 2


FILES = {
    "FileSystemDataSource": {
        "FileSystemId": "fs-0123456789abcdef0", "FileSystemType": "EFS", "DirectoryPath": "/",
        "FileSystemAccessMode": "ro",
    }
}  # fmt: skip
VPC = {"Subnets": ["subnet-12345678"], "SecurityGroupIds": ["sg-12345678"]}
SOURCE = "InputDataConfig.0.DataSource.S3DataSource"
INVALID = "ValidationException"
NO_OBJECTS = "No S3 objects found under S3 URL"
IMAGE = "AlgorithmSpecification.TrainingImage"
CASES: dict[str, tuple[Change, str, str]] = {
    "a bad name": (put("TrainingJobName", "a_b"), INVALID, "Member must satisfy regular expression pattern"),
    "a name that is too long": (put("TrainingJobName", "a" * 64), INVALID, "length less than or equal to 63"),
    "no role": (put("RoleArn", None), INVALID, "Value null at 'roleArn' failed to satisfy constraint"),
    "21 channels": (more_channels, INVALID, "at 'inputDataConfig' failed to satisfy constraint: Member must have "
                    "length less than or equal to 20"),
    "a channel twice": (twice, INVALID, "unique"),
    "an unknown type": (put("ResourceConfig.InstanceType", "ml.x9.large"), INVALID, "Member must satisfy enum value"),
    "no type": (put("ResourceConfig.InstanceType", None), INVALID, "InstanceType"),
    "a long hyperparameter": (put("HyperParameters", {"a": "x" * 2501}), INVALID, "less than or equal to 2500"),
    "wait without spot": (put("StoppingCondition.MaxWaitTimeInSeconds", 90), INVALID,
                          "It is only supported when EnableManagedSpotTraining is set to true"),
    "spot without wait": (put("EnableManagedSpotTraining", True), INVALID, "Invalid MaxWaitTimeInSeconds"),
    "no such bucket": (put(f"{SOURCE}.S3Uri", "s3://nobody-has-this/in/"), INVALID, NO_OBJECTS),
    "an empty bucket": (put(f"{SOURCE}.S3Uri", f"s3://{EMPTY}/"), INVALID, NO_OBJECTS),
    "another prefix": (put(f"{SOURCE}.S3Uri", f"s3://{BUCKET}/none/"), INVALID, NO_OBJECTS),
    "a bucket in another region": (put(f"{SOURCE}.S3Uri", f"s3://{FAR}/in/"), INVALID,
                                   "Please ensure that the bucket exists in the selected region (us-east-1)"),
    "an image that is not in ECR": (put(IMAGE, "pytorch/pytorch:latest"), INVALID, "Invalid training image."),
    "an image that is not there": (put(IMAGE, f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/none:1"), INVALID,
                                   "Cannot find the requested image: "),
    "a manifest as FastFile": (lambda given: [put(f"{SOURCE}.S3DataType", "ManifestFile")(given),
                                              put("InputDataConfig.0.InputMode", "FastFile")(given)],
                               INVALID, "FastFile"),
    "an augmented manifest": (put(f"{SOURCE}.S3DataType", "AugmentedManifestFile"), "InvalidAction", "does not know"),
    "a file system without a VPC": (put("InputDataConfig.0.DataSource", FILES), INVALID, "VpcConfig is required"),
    "a file system that is not there": (lambda given: [put("InputDataConfig.0.DataSource", FILES)(given),
                                                       put("VpcConfig", VPC)(given)], INVALID, "does not exist"),
    "a channel without data": (put("InputDataConfig.0.DataSource", {}), INVALID, "data source"),
    "an unknown member of an enum": (put("AlgorithmSpecification.TrainingInputMode", "Tape"), INVALID,
                                     "[Pipe, File, FastFile]"),
    "beyond the quota": (put("ResourceConfig.InstanceType", "ml.p5.48xlarge"), "ResourceLimitExceeded",
                         f"'{GPUS}' is 1 Instances, with current utilization of 0 Instances"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_request_is_refused_in_awss_words(cloud: InProcess, roles: dict[str, str], case: str) -> None:
    change, code, words = CASES[case]
    given = copy.deepcopy(request(roles["trainer"]))
    change(given)
    fault = cloud.faults.add(parse({"kind": "quota", "quota_code": GPUS, "value": 1}))
    refused = refusal(lambda: cloud.client("sagemaker").create_training_job(**given))
    cloud.faults.clear(fault.id)
    assert (refused[0], refused[1]) == (code, 400)
    assert words in refused[2]


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("of ec2", "Please ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to assume"),
        ("nobody", "Could not assume role arn:aws:iam::123456789012:role/nobody."),
        ("blind", '" has "s3:ListBucket" permissions on bucket'),
    ],
)
def test_a_role_that_does_not_do_is_refused(cloud: InProcess, roles: dict[str, str], who: str, words: str) -> None:
    arn = roles.get(who, f"arn:aws:iam::{ACCOUNT}:role/nobody")
    refused = refusal(lambda: cloud.client("sagemaker").create_training_job(**request(arn)))
    assert refused[0] == INVALID and words in refused[2]


def test_a_name_stays_taken(cloud: InProcess, roles: dict[str, str]) -> None:
    sagemaker, given = cloud.client("sagemaker"), request(roles["trainer"])
    arn = sagemaker.create_training_job(**given)["TrainingJobArn"]
    refused = refusal(lambda: sagemaker.create_training_job(**given))
    assert refused[0] == "ResourceInUse" and f"a training job with this name already exists ({arn})" in refused[2]
    far = cloud.client("sagemaker", "eu-west-1")
    assert NO_OBJECTS in refusal(lambda: far.create_training_job(**given))[2]  # the name is free there


@pytest.mark.parametrize("action", ["describe_training_job", "stop_training_job"])
def test_a_job_that_does_not_exist_is_a_validation_error(cloud: InProcess, action: str) -> None:
    ask = getattr(cloud.client("sagemaker"), action)
    assert refusal(lambda: ask(TrainingJobName="none")) == (INVALID, 400, "Requested resource not found.")


def test_service_quotas_lists_sagemakers(cloud: InProcess) -> None:
    client = cloud.client("service-quotas")
    pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    quotas = {quota["QuotaName"]: quota for page in pages for quota in page["Quotas"]}
    assert {GPUS, "ml.p5.48xlarge for spot training job usage"} <= set(quotas) and len(quotas) > 300
    code = quotas[GPUS]["QuotaCode"]
    fault = cloud.faults.add(parse({"kind": "quota", "quota_code": code, "value": 0}))
    one = client.get_service_quota(ServiceCode="sagemaker", QuotaCode=code)["Quota"]
    cloud.faults.clear(fault.id)
    assert (one["QuotaName"], one["Value"]) == (GPUS, 0)


def test_a_later_cloud_of_the_process_does_not_answer_for_an_earlier_one(tmp_path: Path) -> None:
    for name in ("earlier", "later"):
        (tmp_path / name).mkdir()
    both = [InProcess(tmp_path / name) for name in ("earlier", "later")]
    both[0].faults.add(parse({"kind": "quota", "quota_code": GPUS, "value": 7}))
    asked = {"ServiceCode": "sagemaker", "QuotaCode": quotas.code(GPUS)}
    values = [each.client("service-quotas").get_service_quota(**asked)["Quota"]["Value"] for each in both]
    for each in both:
        each.close()
    assert values == [7, quotas.UNLIMITED]


def test_tags_of_a_job(cloud: InProcess, roles: dict[str, str]) -> None:
    sagemaker = cloud.client("sagemaker")
    given = request(roles["trainer"]) | {"Tags": [{"Key": "a", "Value": "1"}]}
    arn = sagemaker.create_training_job(**given)["TrainingJobArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}, {"Key": "a", "Value": "3"}])
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["b"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "3"}]
    missing = refusal(lambda: sagemaker.list_tags(ResourceArn=f"{arn}x"))
    assert missing[0] == INVALID


@pytest.mark.parametrize(
    ("actions", "lacks"),
    [
        (("sagemaker:CreateTrainingJob", "iam:PassRole"), ""),
        (("sagemaker:CreateTrainingJob",), "iam:PassRole"),
        (("iam:PassRole",), "sagemaker:CreateTrainingJob"),
    ],
)
def test_who_creates_a_job_must_pass_its_role(
    cloud: InProcess, roles: dict[str, str], actions: tuple[str, ...], lacks: str
) -> None:
    name, iam = new(), cloud.client("iam")
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document(allow(Action=list(actions))))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    theirs = cloud.client("sagemaker", keys=(key["AccessKeyId"], key["SecretAccessKey"]))
    refused = refusal(lambda: theirs.create_training_job(**request(roles["trainer"])))
    assert refused[0] == ("AccessDeniedException" if lacks else "")
    assert not lacks or f"is not authorized to perform: {lacks} on resource: " in refused[2]
