"""Launching: RunInstances, CreateFleet, launch templates, interfaces, EC2's rules, faults and states."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import ZONE, Place, code, reserved


def test_an_instance_lives_and_leaves_nothing(place: Place) -> None:
    disks = [{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}]
    tags = [{"ResourceType": kind, "Tags": [{"Key": "Name", "Value": "one"}]} for kind in ("instance", "volume")]
    (instance_id,) = place.run(
        BlockDeviceMappings=disks, TagSpecifications=tags, SecurityGroupIds=[place.group_id],
        MetadataOptions={"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
    )  # fmt: skip
    (instance,) = place.describe(instance_id)
    assert instance["State"]["Name"] == "pending"
    assert instance["SecurityGroups"] == [{"GroupId": place.group_id, "GroupName": "nodes"}]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["PrivateDnsName"] == f"ip-{instance['PrivateIpAddress'].replace('.', '-')}.ec2.internal"
    assert {m["DeviceName"] for m in instance["BlockDeviceMappings"]} == {"/dev/sda1", "/dev/sdf"}
    volumes = [m["Ebs"]["VolumeId"] for m in instance["BlockDeviceMappings"]]
    assert all(v["Tags"] for v in place.ec2.describe_volumes(VolumeIds=volumes)["Volumes"])

    place.await_state("running", instance_id)
    ending = place.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"][0]
    assert (ending["PreviousState"]["Name"], ending["CurrentState"]["Name"]) == ("running", "shutting-down")
    place.await_state("terminated", instance_id)
    with pytest.raises(ClientError) as error:
        place.ec2.describe_volumes(VolumeIds=volumes)
    assert code(error) == "InvalidVolume.NotFound"
    (instance,) = place.describe(instance_id)
    assert "PrivateIpAddress" not in instance
    assert instance["NetworkInterfaces"] == []


@pytest.mark.parametrize(("instance_type", "cards"), [("p5.48xlarge", 32), ("p4d.24xlarge", 4)])
def test_every_efa_interface_has_its_card_and_device(place: Place, instance_type: str, cards: int) -> None:
    place.ec2.create_placement_group(GroupName=instance_type, Strategy="cluster")
    template_id = place.template(
        f"efa-{instance_type}", ImageId=place.image_id, InstanceType=instance_type, NetworkInterfaces=place.efa(cards),
        Placement={"GroupName": instance_type}, UserData=base64.b64encode(b"#!/bin/sh").decode(),
    )  # fmt: skip
    fleet = place.fleet(template_id, 2)
    assert fleet["Errors"] == []
    (pool,) = fleet["Instances"]
    assert (len(pool["InstanceIds"]), pool["InstanceType"]) == (2, instance_type)
    place.await_state("running", *pool["InstanceIds"])
    addresses = set()
    for instance in place.describe(*pool["InstanceIds"]):
        interfaces = instance["NetworkInterfaces"]
        shown = {(i["Attachment"]["NetworkCardIndex"], i["Attachment"]["DeviceIndex"]) for i in interfaces}
        assert shown == {(card, min(card, 1)) for card in range(cards)}
        assert {i["InterfaceType"] for i in interfaces} == {"efa"}
        assert instance["Placement"]["GroupName"] == instance_type
        addresses |= {i["PrivateIpAddress"] for i in interfaces}
    assert len(addresses) == 2 * cards
    topology = place.ec2.describe_instance_topology(InstanceIds=pool["InstanceIds"])["Instances"]
    assert [len(each["NetworkNodes"]) for each in topology] == [3, 3]
    assert topology[0]["NetworkNodes"] == topology[1]["NetworkNodes"], "a switch has room for two instances"
    with pytest.raises(ClientError) as error:
        place.ec2.delete_placement_group(GroupName=instance_type)
    assert code(error) == "InvalidPlacementGroup.InUse"
    place.ec2.terminate_instances(InstanceIds=pool["InstanceIds"])
    place.await_state("terminated", *pool["InstanceIds"])
    place.ec2.delete_placement_group(GroupName=instance_type)


def test_ec2_tells_the_places_of_some_types_while_they_run(place: Place) -> None:
    place.ec2.create_placement_group(GroupName="near", Strategy="cluster")
    near = {"InstanceType": "p4d.24xlarge", "Placement": {"GroupName": "near"}}
    ids = [place.run(**near)[0] for _ in range(3)]
    (alone,), (other,), (four,) = (place.run(InstanceType=f"{each}xlarge") for each in ("p4d.24", "g5.", "p6-b200.48"))
    everyone = [*ids, alone, other, four]
    place.await_state("running", *everyone)

    def topology(**asked: Any) -> dict[str, Any]:
        return {each["InstanceId"]: each for each in place.ec2.describe_instance_topology(**asked)["Instances"]}

    found = topology(InstanceIds=everyone)
    paths = [found[each]["NetworkNodes"] for each in ids]
    assert paths[0] == paths[1] != paths[2], "a switch has room for two"
    assert paths[0][:2] == paths[2][:2] and len(paths[0]) == 3, "the group shares the layers above"
    assert found[alone]["NetworkNodes"][:1] == paths[0][:1] and found[alone]["NetworkNodes"][1:] != paths[0][1:]
    assert "NetworkNodes" not in found[other] and len(found[four]["NetworkNodes"]) == 4
    assert (found[ids[0]]["GroupName"], "GroupName" in found[alone]) == ("near", False)
    assert set(topology(GroupNames=["near"])) == set(ids)
    p4d = [{"Name": "instance-type", "Values": ["p4d*"]}]
    assert set(everyone) & set(topology(Filters=p4d)) == {*ids, alone}
    place.ec2.terminate_instances(InstanceIds=[ids[0]])
    place.await_state("terminated", ids[0])
    assert "NetworkNodes" not in topology(InstanceIds=[ids[0]]).get(ids[0], {})
    assert topology(InstanceIds=ids[1:])[ids[1]]["NetworkNodes"] == paths[1], "an instance keeps its switch"
    place.ec2.terminate_instances(InstanceIds=everyone[1:])
    place.await_state("terminated", *everyone)
    place.ec2.delete_placement_group(GroupName="near")


def test_efa_only_interfaces_take_no_address(place: Place) -> None:
    nics = [place.efa(1)[0] | {"InterfaceType": "interface"}]
    nics += [nic | {"InterfaceType": "efa-only", "DeviceIndex": 1} for nic in place.efa(32)]
    (instance_id,) = place.run(InstanceType="p5.48xlarge", NetworkInterfaces=nics)
    (instance,) = place.describe(instance_id)
    shown = [(i["InterfaceType"], "PrivateIpAddress" in i) for i in instance["NetworkInterfaces"]]
    assert sorted(set(shown)) == [("efa-only", False), ("interface", True)]
    assert len(shown) == 33
    place.ec2.terminate_instances(InstanceIds=[instance_id])


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (lambda p: {"InstanceType": "p99.large"}, "InvalidParameterValue"),
        (lambda p: {"ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound"),
        (lambda p: {"Placement": {"GroupName": "nowhere"}}, "InvalidPlacementGroup.Unknown"),
        (lambda p: {"SecurityGroupIds": ["sg-00000000000000000"]}, "InvalidGroup.NotFound"),
        (lambda p: {"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        (lambda p: {"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        (lambda p: {"NetworkInterfaces": p.efa(1)}, "UnsupportedOperation"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(5)}, "AttachmentLimitExceeded"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(8)}, "AttachmentLimitExceeded"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(4), "SecurityGroupIds": [p.group_id]},
         "InvalidParameterCombination"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(4), "SubnetId": p.subnet_id},
         "InvalidParameterCombination"),
        (lambda p: {"InstanceType": "g5.12xlarge", "NetworkInterfaces": p.efa(2)}, "AttachmentLimitExceeded"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(2, AssociatePublicIpAddress=True)},
         "InvalidParameterCombination"),
        (lambda p: {"NetworkInterfaces": p.efa(1, InterfaceType="eaf")}, "InvalidParameterValue"),
        (lambda p: {"NetworkInterfaces": p.efa(1, InterfaceType="interface", NetworkCardIndex=3)},
         "InvalidParameterValue"),
        (lambda p: {"InstanceType": "p4d.24xlarge", "NetworkInterfaces": p.efa(4)[1:]}, "InvalidParameterCombination"),
        (lambda p: {"MinCount": 5000, "MaxCount": 5000}, "InsufficientFreeAddressesInSubnet"),
        (lambda p: {"DryRun": True}, "DryRunOperation"),
        (lambda p: reserved("cr-0123456789abcdef0"), "InvalidCapacityReservationId.NotFound"),
    ],
)  # fmt: skip
def test_requests_that_ec2_refuses(place: Place, request_: Callable[[Place], dict[str, Any]], expected: str) -> None:
    before = len(place.ec2.describe_instances()["Reservations"])
    with pytest.raises(ClientError) as error:
        place.run(**request_(place))
    assert code(error) == expected
    assert len(place.ec2.describe_instances()["Reservations"]) == before


def test_launch_templates_are_merged_by_explicit_version(place: Place) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}, {"Key": "a", "Value": "1"}]}]
    template_id = place.template(
        "merge", ImageId=place.image_id, InstanceType="m5.large", TagSpecifications=tags,
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": place.subnet_id, "Groups": [place.group_id]}],
    )  # fmt: skip
    place.ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1", LaunchTemplateData={"InstanceType": "m5.4xlarge"}
    )
    own_tags = [{"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "request"}]}]
    chosen = {"LaunchTemplateId": template_id, "Version": "1"}
    run = place.ec2.run_instances(LaunchTemplate=chosen, TagSpecifications=own_tags, MinCount=2, MaxCount=2)
    first, second = run["Instances"]
    assert (first["InstanceType"], first["AmiLaunchIndex"], second["AmiLaunchIndex"]) == ("m5.large", 0, 1)
    shown = {tag["Key"]: tag["Value"] for tag in first["Tags"]}
    assert (shown["from"], shown["a"], shown["aws:ec2launchtemplate:version"]) == ("request", "1", "1")
    with pytest.raises(ClientError) as error:
        place.ec2.run_instances(LaunchTemplate=chosen | {"Version": "9"}, MinCount=1, MaxCount=1)
    assert code(error) == "InvalidLaunchTemplateId.VersionNotFound"
    place.ec2.terminate_instances(InstanceIds=[first["InstanceId"], second["InstanceId"]])


def test_a_client_token_launches_once(place: Place) -> None:
    """DescribeInstances returns it: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html."""
    (first,) = place.run(ClientToken="resume-1")
    (shown,) = place.ec2.describe_instances(InstanceIds=[first])["Reservations"]
    assert shown["Instances"][0]["ClientToken"] == "resume-1"
    assert place.run(ClientToken="resume-1") == [first]
    with pytest.raises(ClientError) as error:
        place.run(ClientToken="resume-1", InstanceType="m5.xlarge")
    assert code(error) == "IdempotentParameterMismatch"
    place.ec2.terminate_instances(InstanceIds=[first])


def test_a_failed_launch_does_not_use_up_its_client_token(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "capacity", "count": 1})
    with pytest.raises(ClientError) as error:
        place.run(ClientToken="resume-2")
    assert code(error) == "InsufficientInstanceCapacity"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500, "which SDKs repeat"
    assert "or choosing us-east-1b, us-east-1c" in str(error.value)
    place.ec2.terminate_instances(InstanceIds=place.run(ClientToken="resume-2"))


def test_as_many_instances_are_launched_as_there_is_capacity_for(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "capacity", "value": 2})
    with pytest.raises(ClientError) as error:
        place.run(MinCount=3, MaxCount=3)
    assert code(error) == "InsufficientInstanceCapacity"
    launched = place.run(MinCount=1, MaxCount=3)
    assert len(launched) == 2
    with pytest.raises(ClientError) as error:
        place.run()
    assert code(error) == "InsufficientInstanceCapacity"
    place.ec2.terminate_instances(InstanceIds=launched)


def test_a_fleet_falls_back_to_the_next_type_and_reports_the_error(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "capacity", "instance_type": "m5.4xlarge", "availability_zone": ZONE})
    template_id = place.template("fallback", ImageId=place.image_id, InstanceType="m5.4xlarge")
    subnet = {"SubnetId": place.subnet_id}
    fleet = place.fleet(
        template_id, 3, {"InstanceType": "m5.4xlarge"} | subnet, {"InstanceType": "m5.2xlarge"} | subnet
    )
    (error,) = fleet["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "m5.4xlarge"
    (pool,) = fleet["Instances"]
    assert (pool["InstanceType"], len(pool["InstanceIds"])) == ("m5.2xlarge", 3)
    place.ec2.terminate_instances(InstanceIds=pool["InstanceIds"])


def test_throttling_ends_after_its_count(place: Place, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "throttle", "action": "ec2:DescribeVpcs", "count": 1})
    with pytest.raises(ClientError) as error:
        place.ec2.describe_vpcs()
    assert code(error) == "RequestLimitExceeded"
    place.ec2.describe_vpcs()


def test_a_service_is_unavailable_until_the_rule_is_removed(place: Place, own: Callable[..., Any]) -> None:
    rule = own("POST", "faults", {"kind": "unavailable", "action": "ec2:*"})
    with pytest.raises(ClientError) as error:
        place.ec2.describe_vpcs()
    assert code(error) == "Unavailable"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    own("DELETE", f"faults?id={rule['id']}")
    place.ec2.describe_vpcs()


def test_instance_death_ends_an_instance_without_a_request(place: Place, own: Callable[..., Any]) -> None:
    (instance_id,) = place.run()
    place.await_state("running", instance_id)
    assert own("POST", "kill", {"instance_id": instance_id}) == {"killed": instance_id}
    place.await_state("terminated", instance_id)
    assert place.describe(instance_id)[0]["StateReason"]["Code"] == "Server.InternalError"


def test_an_interrupted_spot_instance_ends_at_the_announced_time(place: Place, own: Callable[..., Any]) -> None:
    (doomed,) = place.run(InstanceMarketOptions={"MarketType": "spot"})
    (spared,) = place.run(InstanceMarketOptions={"MarketType": "spot"})
    place.await_state("running", doomed, spared)
    for instance_id in (doomed, spared):
        laid = own("POST", "faults", {"kind": "interruption", "instance_id": instance_id, "delay_s": 0.5})
    own("DELETE", f"faults?id={laid['id']}")
    later = own("POST", "faults", {"kind": "interruption", "instance_id": spared, "delay_s": 600})
    place.await_state("terminated", doomed)
    assert place.describe(doomed)[0]["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert place.describe(spared)[0]["State"]["Name"] == "running"
    own("DELETE", f"faults?id={later['id']}")
    place.ec2.terminate_instances(InstanceIds=[spared])


def test_faults_by_the_command_line(
    control_plane: Any, own: Callable[..., Any], localcloud_command: Callable[..., Any]
) -> None:
    run = lambda *words: localcloud_command(control_plane.environment, "fault", *words)  # noqa: E731
    added = run("add", "broken", "--command", "mount", "--message", "no such device", "--tag", "role=compute")
    assert json.loads(added.stdout)["id"]
    listed = json.loads(run("list").stdout)
    assert (listed["kind"], listed["command"], listed["tag"]) == ("broken", "mount", "role=compute")
    wrong = run("add", "throttle")
    assert (wrong.returncode, wrong.stderr) == (2, "error: a throttle fault needs action\n")
    assert json.loads(run("clear", listed["id"]).stdout) == {"cleared": 1}


def test_volumes_attach_to_running_instances_of_their_zone(place: Place) -> None:
    volume = place.ec2.create_volume(AvailabilityZone=ZONE, Size=10, Encrypted=True)["VolumeId"]
    (instance_id,) = place.run()
    place.await_state("running", instance_id)
    attach = {"VolumeId": volume, "InstanceId": instance_id, "Device": "/dev/sdf"}
    place.ec2.attach_volume(**attach)
    with pytest.raises(ClientError) as error:
        place.ec2.attach_volume(**attach)
    assert code(error) == "VolumeInUse"
    place.ec2.terminate_instances(InstanceIds=[instance_id])
    place.await_state("terminated", instance_id)
    (kept,) = place.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert kept["State"] == "available"
    place.ec2.delete_volume(VolumeId=volume)


@pytest.mark.parametrize(
    ("name", "gpus", "vcpus"), [("p3.2xlarge", 1, 8), ("p3.8xlarge", 4, 32), ("p3.16xlarge", 8, 64)]
)
def test_p3_is_in_the_catalogue(place: Place, name: str, gpus: int, vcpus: int) -> None:
    (found,) = place.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    assert (found["GpuInfo"]["Gpus"][0]["Count"], found["VCpuInfo"]["DefaultVCpus"]) == (gpus, vcpus)
    filters = [{"Name": "instance-type", "Values": [name]}]
    offered = place.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)
    assert offered["InstanceTypeOfferings"]
