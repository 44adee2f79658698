"""The head node's volume, its replacement, and what brings it back, as CloudFormation gets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]
POLICY = "AWS::DLM::LifecyclePolicy"


def cluster(head: str = "", rest: str = "") -> str:
    return (
        "name: GpuCluster\nregion: us-east-1\n"
        f"head_node: {{volume_gib: 77{head}}}\n"
        f"partitions: [{{name: train, instance_types: [g5.12xlarge], max_nodes: 4}}]\n{rest}"
    )


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    return {id_: found for id_, found in template["Resources"].items() if found["Type"] == kind}


def only(template: Template, kind: str) -> dict[str, Any]:
    (found,) = of_type(template, kind).values()
    return found


@pytest.mark.parametrize(
    ("wish", "policy"), [("delete", "Delete"), ("snapshot", "Snapshot"), ("retain", "RetainExceptOnCreate")]
)
def test_the_volume_ends_as_the_file_says_and_is_never_replaced_silently(
    template_of: TemplateOf, wish: str, policy: str
) -> None:
    volume = only(template_of(cluster(f", on_delete: {wish}")), "AWS::EC2::Volume")
    assert (volume["DeletionPolicy"], volume["UpdateReplacePolicy"]) == (policy, "Retain")


def test_the_head_attaches_its_volume_itself(template: Template) -> None:
    assert not of_type(template, "AWS::EC2::VolumeAttachment")
    assert "Volumes" not in only(template, "AWS::EC2::Instance")["Properties"]


def test_the_root_disk_has_the_clusters_tag_as_well(template: Template) -> None:
    head = only(template, "AWS::EC2::Instance")["Properties"]
    assert head["PropagateTagsToVolumeOnCreation"] is True
    assert {"Key": "gpucluster:cluster", "Value": "GpuCluster"} in head["Tags"]


def test_daily_snapshots_are_of_this_volume_alone(template_of: TemplateOf) -> None:
    template = template_of(cluster(", snapshot_days: 9"))
    details = only(template, POLICY)["Properties"]["PolicyDetails"]
    assert details["Schedules"][0]["RetainRule"] == {"Interval": 9, "IntervalUnit": "DAYS"}
    (target,) = details["TargetTags"]
    tags = only(template, "AWS::EC2::Volume")["Properties"]["Tags"]
    assert target in tags
    others = [json.dumps(found) for found in template["Resources"].values() if found["Type"] != "AWS::EC2::Volume"]
    assert [each for each in others if json.dumps(target) in each] == [json.dumps(only(template, POLICY))]
    assert not of_type(template_of(cluster(", snapshot_days: 0")), POLICY)


def test_a_volume_is_restored_from_the_named_snapshot(template_of: TemplateOf) -> None:
    restored = only(template_of(cluster(", snapshot_id: snap-0123456789abcdef0")), "AWS::EC2::Volume")["Properties"]
    empty = only(template_of(cluster()), "AWS::EC2::Volume")["Properties"]
    assert restored == {**empty, "SnapshotId": "snap-0123456789abcdef0"}


def test_alarms_recover_and_reboot_the_head(template: Template) -> None:
    (head,) = of_type(template, "AWS::EC2::Instance")
    remedies = {
        found["Properties"]["MetricName"]: json.dumps(found["Properties"]["AlarmActions"])
        for found in of_type(template, "AWS::CloudWatch::Alarm").values()
        if found["Properties"].get("Dimensions") == [{"Name": "InstanceId", "Value": {"Ref": head}}]
        and found["Properties"].get("Namespace") == "AWS/EC2"
        and "automate" in json.dumps(found["Properties"].get("AlarmActions"))
    }
    assert ":ec2:recover" in remedies["StatusCheckFailed_System"]
    assert ":ec2:reboot" in remedies["StatusCheckFailed_Instance"]
    assert len(remedies) == 2


@pytest.mark.parametrize("rest", ["", "monitoring: {alarm_email: a@example.org}\n"])
def test_no_alarm_recovers_a_head_of_a_type_that_ec2_cannot_recover(template_of: TemplateOf, rest: str) -> None:
    template = template_of(cluster(", instance_type: g5.xlarge", rest))
    alarms = {
        found["Properties"]["MetricName"]: found["Properties"]
        for found in of_type(template, "AWS::CloudWatch::Alarm").values()
        if found["Properties"].get("Namespace") == "AWS/EC2"
    }
    system = alarms["StatusCheckFailed_System"]
    assert "automate" not in json.dumps(system)
    assert len(system["AlarmActions"]) == bool(rest), "the topic alone"
    assert ":ec2:reboot" in json.dumps(alarms["StatusCheckFailed_Instance"]["AlarmActions"])


def test_termination_protection_is_the_instances_too(template_of: TemplateOf) -> None:
    protected = only(template_of(cluster(", termination_protection: true")), "AWS::EC2::Instance")
    assert protected["Properties"]["DisableApiTermination"] is True
    assert only(template_of(cluster()), "AWS::EC2::Instance")["Properties"]["DisableApiTermination"] is False


def bundle_parameter(template: Template) -> str:
    (value,) = (
        json.dumps(found["Properties"]["Value"])
        for found in of_type(template, "AWS::SSM::Parameter").values()
        if found["Properties"]["Name"] == "/gpucluster/GpuCluster/bundle"
    )
    return value


def generation(template: Template) -> str:
    tags = {tag["Key"]: tag["Value"] for tag in only(template, "AWS::EC2::Instance")["Properties"]["Tags"]}
    return str(tags["gpucluster:generation"])


def test_another_image_replaces_the_head_and_waits_for_it(template_of: TemplateOf) -> None:
    before, after = template_of(cluster()), template_of(cluster(", image: ami-0fedcba9876543210"))
    assert only(after, "AWS::EC2::Instance")["Properties"]["ImageId"] == "ami-0fedcba9876543210"
    assert generation(before) != generation(after)
    for template in (before, after):
        assert generation(template) in bundle_parameter(template)
    waits = [of_type(each, "AWS::CloudFormation::WaitCondition").keys() for each in (before, after)]
    assert waits[0].isdisjoint(waits[1])


def test_another_size_is_the_same_head(template_of: TemplateOf) -> None:
    before = template_of(cluster())
    after = template_of(cluster().replace("volume_gib: 77", "volume_gib: 88, instance_type: m6i.4xlarge"))
    assert generation(before) == generation(after)
    assert bundle_parameter(before) != bundle_parameter(after), "the head must learn that there is more to fill"
