"""What `plan` says that AWS would refuse. moto has the role, the bucket and the image; a Stubber has the quotas."""

from __future__ import annotations

import json

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from gpucluster.config.parse import parse
from gpucluster.sagemaker import online, target

TARGET = """\
region: us-west-2
role_arn: arn:aws:iam::123456789012:role/training
bucket: bucket-of-mine
instance_type: ml.p4d.24xlarge
image: 123456789012.dkr.ecr.us-west-2.amazonaws.com/mine:1
"""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
USAGE = "training job usage"
NEEDED = ("s3", "iam", "ecr", "service-quotas")


class Clients(dict):
    def client(self, service):
        return self[service]


@pytest.fixture(scope="module")
def made_once():
    session = boto3.Session("one", "two", region_name="us-west-2")
    return Clients({name: session.client(name) for name in NEEDED})


def trust(service):
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture
def faults(made_once):
    """faults(edit of sagemaker.yaml…): with what the account has."""

    def ask(*edit, trusted="sagemaker.amazonaws.com", quota=8.0, region="us-west-2", path="/"):
        with mock_aws(), Stubber(made_once["service-quotas"]) as quotas:
            names = {
                "ml.p4d.24xlarge for spot training job usage": 0.0,
                "ml.p4d.24xlarge for training job usage": quota,
            }
            found = [{"QuotaName": name, "Value": value} for name, value in names.items()]
            quotas.add_response("list_service_quotas", {"Quotas": found}, {"ServiceCode": "sagemaker"})
            made_once["iam"].create_role(RoleName="training", Path=path, AssumeRolePolicyDocument=trust(trusted))
            place = {"LocationConstraint": region}
            regional = boto3.Session("one", "two", region_name=region).client("s3")
            regional.create_bucket(Bucket="bucket-of-mine", CreateBucketConfiguration=place)
            made_once["ecr"].create_repository(repositoryName="mine")
            manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"digest": "a"}, "layers": []})
            made_once["ecr"].put_image(repositoryName="mine", imageManifest=manifest, imageTag="1")
            text = TARGET.replace(*edit) if edit else TARGET
            return online.ask(made_once, target.loads(parse(text, "sagemaker.yaml")))

    return ask


def test_an_account_that_has_everything(faults):
    assert faults() == ()


@pytest.mark.parametrize(
    ("edit", "more", "key", "said"),
    [
        ((), {"quota": 0.0}, "instance_type", "ml.p4d.24xlarge for training job usage, is 0: no job can start"),
        (("image", "spot: true\nmax_wait: 1d\nimage"), {}, "instance_type", "p4d.24xlarge for spot training job usage"),
        (("role/training", "role/other"), {}, "role_arn", "there is no role other"),
        (
            (),
            {"path": "/service-role/"},
            "role_arn",
            "the role training is arn:aws:iam::123456789012:role/service",
        ),
        ((), {"trusted": "ec2.amazonaws.com"}, "role_arn", "the role training does not trust sagemaker.amazonaws.com"),
        (("bucket-of-mine", "bucket-of-none"), {}, "bucket", "there is no bucket bucket-of-none"),
        ((), {"region": "eu-west-1"}, "bucket", "bucket-of-mine is in eu-west-1, and SageMaker in us-west-2 needs"),
        (("mine:1", "mine:2"), {}, "image", "the repository mine has no image 2"),
        (("ecr.us-west-2", "ecr.us-east-1"), {}, "image", "is in us-east-1, and SageMaker pulls from us-west-2 alone"),
        (("mine:1", "ours:1"), {}, "image", "there is no repository ours in 123456789012, us-west-2"),
    ],
)
def test_what_would_be_refused(faults, edit, more, key, said):
    (fault,) = faults(*edit, **more)
    assert (fault.key, fault.certain) == (key, True)
    assert said in fault.message


def test_what_may_not_be_asked_is_said(faults, made_once):
    with Stubber(made_once["ecr"]) as ecr:
        ecr.add_response("create_repository", {})
        ecr.add_response("put_image", {})
        ecr.add_client_error(
            "describe_images", "AccessDeniedException", "not authorized to perform: ecr:DescribeImages"
        )
        (fault,) = faults()
    assert (fault.key, fault.certain) == ("image", False)
    assert fault.message.startswith("was not checked: DescribeImages: AccessDeniedException")
