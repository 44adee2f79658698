"""The verbs as people who have docs/policies, with the real CDK command line. Nothing boots: a stand-in for the head
node signals that a bundle is applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests import warm
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
NAME = "Documented"
CLUSTER = """
name: Documented
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20}
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 2}
budget: {monthly_usd: 100, email: a@example.com, at_limit: stop-launches}
"""


def person(control_plane: Any, policy: str) -> dict[str, str]:
    """The keys of a new user with that policy, for the cluster NAME."""
    iam, user = control_plane.client("iam"), policy.removesuffix(".json")
    document = (ROOT / "docs" / "policies" / policy).read_text().replace("GpuCluster", NAME)
    iam.create_user(UserName=user)
    iam.put_user_policy(UserName=user, PolicyName="gpucluster", PolicyDocument=document)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    return {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}


def removed(control_plane: Any, policy: str) -> None:
    iam, user = control_plane.client("iam"), policy.removesuffix(".json")
    for key in iam.list_access_keys(UserName=user)["AccessKeyMetadata"]:
        iam.delete_access_key(UserName=user, AccessKeyId=key["AccessKeyId"])
    iam.delete_user_policy(UserName=user, PolicyName="gpucluster")
    iam.delete_user(UserName=user)


@pytest.fixture
def deployer(bootstrapped: Any) -> Iterator[dict[str, str]]:
    yield person(bootstrapped, "deployer.json")
    removed(bootstrapped, "deployer.json")


@pytest.fixture
def submitter(bootstrapped: Any) -> Iterator[dict[str, str]]:
    yield person(bootstrapped, "jobs.json")
    removed(bootstrapped, "jobs.json")


@pytest.fixture
def foreign(bootstrapped: Any) -> Iterator[str]:
    """An instance of somebody else."""
    ec2 = bootstrapped.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (made,) = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1)["Instances"]
    yield made["InstanceId"]
    ec2.terminate_instances(InstanceIds=[made["InstanceId"]])


def refused(call: Any, **parameters: Any) -> None:
    with pytest.raises(ClientError) as error:
        call(**parameters)
    assert error.value.response["Error"]["Code"] in ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")


def test_the_documented_policies_are_enough_for_the_verbs_and_reach_nothing_else(
    bootstrapped: Any, deployer: dict[str, str], submitter: dict[str, str], foreign: str, tmp_path: Path
) -> None:
    from gpucluster.cluster import local_cloud

    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    record = local_cloud.Record(
        bootstrapped.endpoint_url, "default", False, deployer["aws_secret_access_key"], deployer["aws_access_key_id"]
    )
    local_cloud.write(file, NAME, record)

    def gpucluster(*words: str) -> str:
        done = warm.gpucluster("-c", str(file), *words)
        assert done.returncode == 0 and "not authorized" not in done.stderr, done.stdout + done.stderr
        return done.stdout

    with Head(bootstrapped, NAME):
        for verb in ("plan", "up", "list", "stop", "start"):
            gpucluster(verb)
        file.write_text(CLUSTER.replace("max_nodes: 2", "max_nodes: 3"))
        for verb in ("plan", "up"):
            gpucluster(verb)
    reaches_one_cluster(bootstrapped, submitter)
    lifts_protection(bootstrapped, deployer)
    bakes(bootstrapped, deployer)
    changes_nothing_foreign(bootstrapped, deployer, foreign)
    gpucluster("down", "--yes")


def reaches_one_cluster(control_plane: Any, keys: dict[str, str]) -> None:
    stacks, ssm = control_plane.client("cloudformation", **keys), control_plane.client("ssm", **keys)
    (stack,) = stacks.describe_stacks(StackName=NAME)["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    ssm.get_parameter(Name=f"/gpucluster/{NAME}/host-key")
    ssm.get_parameter(Name=f"/gpucluster/{NAME}/head")
    refused(ssm.get_parameter, Name=f"/gpucluster/{NAME}/bundle")
    refused(stacks.describe_stacks, StackName="CDKToolkit")
    refused(stacks.describe_stacks)
    refused(control_plane.client("ec2", **keys).stop_instances, InstanceIds=[outputs["HeadInstanceId"]])
    refused(
        control_plane.client("sts", **keys).assume_role,
        RoleArn="arn:aws:iam::123456789012:role/cdk-hnb659fds-deploy-role-123456789012-us-east-1",
        RoleSessionName="me",
    )


def bakes(control_plane: Any, keys: dict[str, str]) -> None:
    """Creates an image as `image build` does, of an instance with the cluster's tag."""
    from gpucluster.baking import bake
    from gpucluster.baking.pins import Baking

    ec2 = control_plane.client("ec2", **keys)
    tagged = [{"Name": "tag:gpucluster:cluster", "Values": [NAME]}]
    running = {"Name": "instance-state-name", "Values": ["running"]}
    (found,) = ec2.describe_instances(Filters=[*tagged, running])["Reservations"]
    baking = Baking("123456789012", "us-east-1", "ami-0123456789abcdef0", "recipe", "parts")
    image_id = bake.create(ec2, found["Instances"][0]["InstanceId"], baking)
    bake.wait_for(ec2, image_id)
    control_plane.client("ec2").deregister_image(ImageId=image_id)


def lifts_protection(control_plane: Any, keys: dict[str, str]) -> None:
    """As `down` does after the question; the test has no terminal to answer it."""
    stacks, ec2 = control_plane.client("cloudformation", **keys), control_plane.client("ec2", **keys)
    stacks.update_termination_protection(StackName=NAME, EnableTerminationProtection=False)
    resources = stacks.list_stack_resources(StackName=NAME)["StackResourceSummaries"]
    for each in resources:
        if each["ResourceType"] == "AWS::EC2::Instance":
            ec2.modify_instance_attribute(InstanceId=each["PhysicalResourceId"], DisableApiTermination={"Value": False})


def changes_nothing_foreign(control_plane: Any, keys: dict[str, str], instance_id: str) -> None:
    ec2, iam = control_plane.client("ec2", **keys), control_plane.client("iam", **keys)
    ids = {"InstanceIds": [instance_id]}
    for call in (ec2.stop_instances, ec2.start_instances, ec2.terminate_instances):
        refused(call, **ids)
    refused(ec2.modify_instance_attribute, InstanceId=instance_id, UserData={"Value": b"x"})
    refused(ec2.create_tags, Resources=[instance_id], Tags=[{"Key": "gpucluster:cluster", "Value": NAME}])
    refused(ec2.create_image, InstanceId=instance_id, Name="stolen")
    stacks = control_plane.client("cloudformation", **keys)
    refused(stacks.update_termination_protection, StackName="CDKToolkit", EnableTerminationProtection=False)
    role = "cdk-hnb659fds-deploy-role-123456789012-us-east-1"
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    guard = control_plane.client("iam").create_policy(
        PolicyName="Guardrail",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [deny]}),
    )["Policy"]["Arn"]
    refused(iam.detach_role_policy, RoleName=role, PolicyArn=guard)
    control_plane.client("iam").delete_policy(PolicyArn=guard)
