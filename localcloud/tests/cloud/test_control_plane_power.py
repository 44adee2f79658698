"""Stopping, starting and rebooting instances, and the attributes that change while they are stopped or at any time."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import ZONE, Place, code


@pytest.fixture
def running(place: Place) -> str:
    (instance_id,) = place.run(UserData="#!/bin/sh\n", SecurityGroupIds=[place.group_id])
    place.await_state("running", instance_id)
    return instance_id


def stop(place: Place, instance_id: str) -> None:
    place.ec2.stop_instances(InstanceIds=[instance_id])
    place.await_state("stopped", instance_id)


def modify(place: Place, instance_id: str, **attribute: Any) -> None:
    place.ec2.modify_instance_attribute(InstanceId=instance_id, **attribute)


def attribute(place: Place, instance_id: str, name: str) -> Any:
    answer = place.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute=name)
    return answer[name[0].upper() + name[1:]]["Value"]


def test_a_stopped_instance_keeps_what_it_has_and_starts_again(place: Place, running: str) -> None:
    (before,) = place.describe(running)
    (change,) = place.ec2.stop_instances(InstanceIds=[running])["StoppingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]) == ("running", {"Name": "stopping", "Code": 64})
    place.await_state("stopped", running)
    (stopped,) = place.describe(running)
    assert stopped["State"]["Code"] == 80
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    (change,) = place.ec2.start_instances(InstanceIds=[running])["StartingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]) == ("stopped", {"Name": "pending", "Code": 0})
    place.await_state("running", running)
    (after,) = place.describe(running)
    for kept in ("PrivateIpAddress", "NetworkInterfaces", "BlockDeviceMappings", "SubnetId", "IamInstanceProfile"):
        assert before.get(kept) == after.get(kept)
    place.ec2.reboot_instances(InstanceIds=[running])
    assert place.describe(running)[0]["State"]["Name"] == "running"


def test_a_stopped_instance_can_be_terminated(place: Place, running: str) -> None:
    stop(place, running)
    place.ec2.terminate_instances(InstanceIds=[running])
    place.await_state("terminated", running)


def test_a_launch_address_is_released_at_the_stop(place: Place) -> None:
    nic = {"DeviceIndex": 0, "SubnetId": place.subnet_id, "AssociatePublicIpAddress": True}
    (instance_id,) = place.run(NetworkInterfaces=[nic])
    place.await_state("running", instance_id)
    first = place.describe(instance_id)[0]["PublicIpAddress"]
    stop(place, instance_id)
    assert "PublicIpAddress" not in place.describe(instance_id)[0]
    place.ec2.start_instances(InstanceIds=[instance_id])
    place.await_state("running", instance_id)
    assert place.describe(instance_id)[0]["PublicIpAddress"] != first


def test_instances_that_cannot_be_stopped_or_started(place: Place, own: Callable[..., Any]) -> None:
    (spot,) = place.run(InstanceMarketOptions={"MarketType": "spot"})
    own("POST", "faults", {"kind": "slow-boot", "delay_s": 3, "count": 1})
    (pending,) = place.run()
    for instance_id, expected in ((spot, "UnsupportedOperation"), (pending, "IncorrectInstanceState")):
        with pytest.raises(ClientError) as error:
            place.ec2.stop_instances(InstanceIds=[instance_id])
        assert code(error) == expected
    place.await_state("running", pending)
    place.ec2.start_instances(InstanceIds=[pending])  # nothing to do
    stop(place, pending)
    with pytest.raises(ClientError) as error:
        place.ec2.reboot_instances(InstanceIds=[pending])
    assert code(error) == "IncorrectInstanceState"
    own("POST", "faults", {"kind": "capacity", "instance_type": "m5.large", "availability_zone": ZONE, "count": 1})
    with pytest.raises(ClientError) as error:
        place.ec2.start_instances(InstanceIds=[pending])
    assert code(error) == "InsufficientInstanceCapacity"
    place.ec2.terminate_instances(InstanceIds=[pending])
    place.await_state("terminated", pending)
    with pytest.raises(ClientError) as error:
        place.ec2.start_instances(InstanceIds=[pending])
    assert code(error) == "IncorrectInstanceState"


def test_faults_of_running_instances_need_an_instance(place: Place, own: Callable[..., Any]) -> None:
    (instance_id,) = place.run()
    for kind in (
        {"kind": "lost-gpu"},
        {"kind": "kernel-log", "message": "a line"},
        {"kind": "clock-skew", "value": 60},
    ):
        assert own("POST", "faults", kind | {"instance_id": instance_id})
        with pytest.raises(HTTPError) as error:
            own("POST", "faults", kind | {"instance_id": "i-0123456789abcdef0"})
        assert json.load(error.value)["error"] == "no instance i-0123456789abcdef0 runs in this cloud"
    assert [rule["kind"] for rule in own("GET", "faults")] == ["lost-gpu", "clock-skew"], "a message is no rule"
    assert own("DELETE", "faults") == {"cleared": 2}


@pytest.mark.parametrize(
    ("name", "attribute_"),
    [
        ("instanceType", {"InstanceType": {"Value": "m5.xlarge"}}),
        ("userData", {"UserData": {"Value": b"#!/bin/bash\n"}}),
        ("ebsOptimized", {"EbsOptimized": {"Value": True}}),
    ],
)
def test_attributes_that_need_a_stopped_instance(
    place: Place, running: str, name: str, attribute_: dict[str, Any]
) -> None:
    with pytest.raises(ClientError) as error:
        modify(place, running, **attribute_)
    assert code(error) == "IncorrectInstanceState"
    stop(place, running)
    modify(place, running, **attribute_)
    (wanted,) = [value["Value"] for value in attribute_.values()]
    found = attribute(place, running, name)
    assert (base64.b64decode(found) if name == "userData" else found) == wanted


def test_new_user_data_and_type_apply_after_the_start(place: Place, running: str) -> None:
    stop(place, running)
    with pytest.raises(ClientError) as error:
        modify(place, running, InstanceType={"Value": "m5.nothing"})
    assert code(error) == "InvalidInstanceAttributeValue"
    modify(place, running, InstanceType={"Value": "m5.2xlarge"})
    place.ec2.start_instances(InstanceIds=[running])
    place.await_state("running", running)
    assert place.describe(running)[0]["InstanceType"] == "m5.2xlarge"


def test_termination_protection_works_until_it_is_removed(place: Place, running: str) -> None:
    modify(place, running, DisableApiTermination={"Value": True})
    assert attribute(place, running, "disableApiTermination") is True
    with pytest.raises(ClientError) as error:
        place.ec2.terminate_instances(InstanceIds=[running])
    assert code(error) == "OperationNotPermitted"
    modify(place, running, Attribute="disableApiTermination", Value="false")
    assert attribute(place, running, "disableApiTermination") is False
    place.ec2.terminate_instances(InstanceIds=[running])


def test_other_attributes_change_at_any_time(place: Place, running: str) -> None:
    modify(place, running, InstanceInitiatedShutdownBehavior={"Value": "terminate"})
    assert attribute(place, running, "instanceInitiatedShutdownBehavior") == "terminate"
    modify(place, running, SourceDestCheck={"Value": False})
    assert place.describe(running)[0]["SourceDestCheck"] is False
    vpc = place.vpc_id
    other = place.ec2.create_security_group(GroupName="other", Description="other", VpcId=vpc)["GroupId"]
    modify(place, running, Groups=[other])
    (instance,) = place.describe(running)
    assert [group["GroupId"] for group in instance["SecurityGroups"]] == [other]
    assert [group["GroupId"] for group in instance["NetworkInterfaces"][0]["Groups"]] == [other]
    with pytest.raises(ClientError) as error:
        modify(place, running, InstanceInitiatedShutdownBehavior={"Value": "explode"})
    assert code(error) == "InvalidParameterValue"
    place.ec2.terminate_instances(InstanceIds=[running])
    place.await_state("terminated", running)
    place.ec2.delete_security_group(GroupId=other)


def test_a_volume_moves_from_a_stopped_instance_to_another(place: Place, running: str) -> None:
    volume = place.ec2.create_volume(AvailabilityZone=ZONE, Size=1)["VolumeId"]
    (other,) = place.run()
    attach = {"VolumeId": volume, "Device": "/dev/sdf"}
    place.ec2.attach_volume(InstanceId=running, **attach)
    place.await_state("running", other)
    with pytest.raises(ClientError) as error:
        place.ec2.attach_volume(InstanceId=other, **attach)
    assert code(error) == "VolumeInUse"
    stop(place, running)
    (held,) = place.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert (held["State"], held["Attachments"][0]["InstanceId"]) == ("in-use", running)
    with pytest.raises(ClientError) as error:
        place.ec2.detach_volume(VolumeId=volume, InstanceId=other)
    assert code(error) == "InvalidAttachment.NotFound"
    place.ec2.detach_volume(VolumeId=volume, InstanceId=running)
    with pytest.raises(ClientError) as error:
        place.ec2.detach_volume(VolumeId=volume)
    assert code(error) == "IncorrectState"
    place.ec2.attach_volume(InstanceId=other, **attach)
    place.ec2.detach_volume(VolumeId=volume)
    place.ec2.attach_volume(InstanceId=running, **attach)  # a volume can be attached to a stopped instance
    place.ec2.detach_volume(VolumeId=volume)
    place.ec2.delete_volume(VolumeId=volume)


def test_a_volume_is_made_from_a_snapshot_once_that_is_completed(place: Place) -> None:
    volume = place.ec2.create_volume(AvailabilityZone=ZONE, Size=3)["VolumeId"]
    made = place.ec2.create_snapshot(VolumeId=volume)
    assert made["State"] == "pending"
    place.ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[made["SnapshotId"]], WaiterConfig={"Delay": 1})
    copy = place.ec2.create_volume(AvailabilityZone=ZONE, SnapshotId=made["SnapshotId"])
    assert (copy["Size"], copy["SnapshotId"]) == (3, made["SnapshotId"])
    place.ec2.delete_snapshot(SnapshotId=made["SnapshotId"])
    with pytest.raises(ClientError) as error:
        place.ec2.create_volume(AvailabilityZone=ZONE, SnapshotId=made["SnapshotId"])
    assert code(error) == "InvalidSnapshot.NotFound"
    for each in (volume, copy["VolumeId"]):
        place.ec2.delete_volume(VolumeId=each)


def test_the_root_volume_stays_on_a_running_instance(place: Place, running: str) -> None:
    (root,) = [m["Ebs"]["VolumeId"] for m in place.describe(running)[0]["BlockDeviceMappings"]]
    with pytest.raises(ClientError) as error:
        place.ec2.detach_volume(VolumeId=root)
    assert code(error) == "OperationNotPermitted"
