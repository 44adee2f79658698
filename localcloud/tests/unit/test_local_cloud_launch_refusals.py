"""Launches that EC2 refuses, which leave nothing behind: localcloud/ec2/validation/launch.py, volumes.py."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from localcloud.ec2.validation import volumes
from localcloud.tests.ec2_place import NOBODY, Call, Here, group, template
from localcloud.tests.in_process import refusal
from localcloud.validation.refusal import Refusal


def mapped(**ebs: Any) -> dict[str, Any]:
    return {"BlockDeviceMappings": [{"DeviceName": "/dev/sdf", "Ebs": ebs}]}


def fleet(here: Here, **more: Any) -> Any:
    chosen = {"LaunchTemplateName": template(here), "Version": "$Latest"} | more.pop("chosen", {})
    configs = [{"LaunchTemplateSpecification": {k: v for k, v in chosen.items() if v}, **more.pop("config", {})}]
    capacity = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    return here.ec2.create_fleet(
        Type="instant", TargetCapacitySpecification=capacity, LaunchTemplateConfigs=configs, **more
    )


def spot(**options: Any) -> dict[str, Any]:
    return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}


LAUNCHES: dict[str, tuple[Call, str]] = {
    "no count": (lambda h: h.launch(MinCount=0, MaxCount=0), "InvalidParameterValue"),
    "counts": (lambda h: h.launch(MinCount=2, MaxCount=1), "InvalidParameterValue"),
    "user data": (lambda h: h.launch(UserData="#!/bin/sh\n" + "x" * 16384), "InvalidParameterValue"),
    "hops": (lambda h: h.launch(MetadataOptions={"HttpPutResponseHopLimit": 65}), "InvalidParameterValue"),
    "tag keys for the metadata service": (
        lambda h: h.launch(MetadataOptions={"InstanceMetadataTags": "enabled"}, TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "my key", "Value": "x"}]}]), "InvalidParameterValue"),
    "cores": (lambda h: h.launch(CpuOptions={"CoreCount": 3, "ThreadsPerCore": 2}), "InvalidParameterValue"),
    "interruption": (lambda h: h.launch(**spot(InstanceInterruptionBehavior="stop")), "InvalidParameterCombination"),
    "price": (lambda h: h.launch(**spot(MaxPrice="0")), "InvalidParameterValue"),
    "hibernation": (lambda h: h.launch(HibernationOptions={"Configured": True}), "UnsupportedHibernationConfiguration"),
    "credits": (lambda h: h.launch(CreditSpecification={"CpuCredits": "unlimited"}), "InvalidParameterCombination"),
    "names of groups": (lambda h: h.launch(SecurityGroups=["default"]), "InvalidParameterCombination"),
    "no device index": (lambda h: h.launch(NetworkInterfaces=[{"SubnetId": h.subnet_id}]), "InvalidParameterValue"),
    "root too small": (lambda h: h.launch(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 1}}]),
                       "InvalidBlockDeviceMapping"),
    "device twice": (lambda h: h.launch(BlockDeviceMappings=[
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1}}] * 2), "InvalidBlockDeviceMapping"),
    "no size": (lambda h: h.launch(**mapped(VolumeType="gp3")), "MissingParameter"),
    "io2 without IOPS": (lambda h: h.launch(**mapped(VolumeSize=100, VolumeType="io2")), "MissingParameter"),
    "key without encryption": (lambda h: h.launch(**mapped(VolumeSize=9, KmsKeyId="alias/x")),
                               "InvalidParameterDependency"),
    "two EFA on a card": (lambda h: h.launch(InstanceType="p4d.24xlarge", NetworkInterfaces=[
        h.nic(0, kind="efa"), h.nic(1, kind="efa")]), "AttachmentLimitExceeded"),
    "address outside": (lambda h: h.launch(PrivateIpAddress="192.168.7.7"), "InvalidParameterValue"),
    "address reserved": (lambda h: h.launch(PrivateIpAddress="10.77.1.3"), "InvalidParameterValue"),
    "address of many": (lambda h: h.launch(PrivateIpAddress="10.77.1.77", MinCount=2, MaxCount=2),
                        "InvalidParameterCombination"),
    "six groups": (lambda h: h.launch(SecurityGroupIds=[group(h) for _ in range(6)]),
                   "SecurityGroupsPerInterfaceLimitExceeded"),
    "burstable in a cluster": (lambda h: h.launch(InstanceType="t3.micro", Placement=placed(h, "cluster")),
                               "InvalidParameterCombination"),
    "eighth of a spread": (lambda h: h.launch(MinCount=8, MaxCount=8, Placement=placed(h, "spread")),
                           "InsufficientInstanceCapacity"),
    "partition": (lambda h: h.launch(Placement=placed(h, "partition") | {"PartitionNumber": 9}),
                  "InvalidParameterValue"),
    "no host": (lambda h: h.launch(Placement={"Tenancy": "host", "HostId": f"h-{NOBODY}"}), "InvalidHostID.NotFound"),
    "template's name": (lambda h: h.ec2.create_launch_template(
        LaunchTemplateName="my template", LaunchTemplateData={"InstanceType": "m5.large"}),
        "InvalidLaunchTemplateName.MalformedException"),
    "template's market": (lambda h: template(h, InstanceMarketOptions={"SpotOptions": {"MaxPrice": "1"}}),
                          "MissingParameter"),
    "fleet without version": (lambda h: fleet(h, chosen={"Version": ""}), "MissingParameter"),
    "fleet's priorities": (lambda h: fleet(h, OnDemandOptions={"AllocationStrategy": "lowest-price"},
                                           config={"Overrides": [{"Priority": 1}]}), "InvalidParameterCombination"),
    "zone of another subnet": (lambda h: h.launch(Placement={"AvailabilityZone": "us-east-1b"}),
                               "InvalidParameterValue"),
    "template by two names": (lambda h: h.launch(LaunchTemplate={
        "LaunchTemplateName": template(h), "LaunchTemplateId": f"lt-{NOBODY}"}), "InvalidLaunchTemplateId.NotFound"),
    "tags of a VPC": (lambda h: h.launch(TagSpecifications=[
        {"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}]), "InvalidParameterValue"),
    "tags twice": (lambda h: h.launch(TagSpecifications=[
        {"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}] * 2), "InvalidParameterValue"),
    "long token": (lambda h: h.launch(ClientToken="t" * 65), "InvalidParameterValue"),
}  # fmt: skip


def placed(here: Here, strategy: str) -> dict[str, str]:
    name = f"pg-{uuid.uuid4().hex}"
    here.ec2.create_placement_group(GroupName=name, Strategy=strategy)
    return {"GroupName": name}


@pytest.mark.parametrize("name", [*LAUNCHES])
def test_a_refused_launch_leaves_nothing_behind(here: Here, name: str) -> None:
    call, code = LAUNCHES[name]
    before = here.census()
    assert refusal(lambda: call(here))[0] == code
    assert here.census() == before


@pytest.mark.parametrize(
    ("size_gib", "kind", "iops", "mib_s", "code"),
    [
        (6, "gp3", 3000, 125, None),
        (160, "gp3", 80000, 2000, None),
        (10, "gp3", 16000, None, "InvalidParameterValue"),
        (100, "gp3", 2999, None, "InvalidParameterValue"),
        (100, "gp3", None, 751, "InvalidParameterValue"),
        (100, "gp3", None, 124, "InvalidParameterValue"),
        (4, "io1", 200, None, None),
        (4, "io1", 201, None, "InvalidParameterValue"),
        (100, "io2", None, None, "MissingParameter"),
        (100, "io2", 100000, None, None),
        (124, "st1", None, None, "InvalidParameterValue"),
        (100, "gp2", 300, None, "InvalidParameterCombination"),
        (100, "gp2", None, 125, "InvalidParameterCombination"),
        (100, "gp9", None, None, "InvalidParameterValue"),
    ],
)
def test_volumes_that_are_accepted_and_refused(
    size_gib: int, kind: str, iops: int | None, mib_s: int | None, code: str | None
) -> None:
    try:
        volumes.check(size_gib, kind, iops, mib_s)
    except Refusal as refused:
        assert refused.code == code
    else:
        assert code is None


def test_iops_and_throughput_of_a_block_device_mapping_are_used(here: Here) -> None:
    wanted = [
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 123, "VolumeType": "gp3", "Iops": 6000, "Throughput": 500}},
        {"DeviceName": "/dev/sdg", "Ebs": {"VolumeSize": 124, "VolumeType": "io2", "Iops": 3000}},
    ]
    instance_id = here.launch(BlockDeviceMappings=wanted)["Instances"][0]["InstanceId"]
    attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    found = {
        volume["Size"]: (volume["VolumeType"], volume["Iops"], volume.get("Throughput"))
        for volume in here.ec2.describe_volumes(Filters=attached)["Volumes"]
    }
    assert found[123] == ("gp3", 6000, 500)
    assert found[124] == ("io2", 3000, None)


def test_a_token_of_a_terminated_instance_is_refused(here: Here) -> None:
    """boto/boto3#4406"""
    token = uuid.uuid4().hex
    instance_id = here.launch(ClientToken=token)["Instances"][0]["InstanceId"]
    here.ec2.terminate_instances(InstanceIds=[instance_id])
    here.ec2.get_waiter("instance_terminated").wait(InstanceIds=[instance_id], WaiterConfig={"Delay": 1})
    assert refusal(lambda: here.launch(ClientToken=token))[0] == "IdempotentInstanceTerminated"
