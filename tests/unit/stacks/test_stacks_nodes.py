"""The head node and the launch templates, as CloudFormation gets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from synthesis import ACCOUNT, lookups

Template = dict[str, Any]

CLUSTER = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1b
head_node: {{instance_type: m6i.large, volume_gib: 77}}
partitions:
  - {{name: train, instance_types: [{types}], max_nodes: {max_nodes}, efa: {efa}, placement_group: {placement_group}}}
"""


def cluster(
    types: str = "p4d.24xlarge", *, max_nodes: int = 4, efa: str = "auto", placement_group: str = "cluster"
) -> str:
    return CLUSTER.format(types=types, max_nodes=max_nodes, efa=efa, placement_group=placement_group)


def properties(template: Template, kind: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in template["Resources"].values() if found["Type"] == kind]


def only(template: Template, kind: str) -> dict[str, Any]:
    (found,) = [found for found in template["Resources"].values() if found["Type"] == kind]
    return found


def launch_data(template: Template) -> dict[str, Any]:
    return properties(template, "AWS::EC2::LaunchTemplate")[0]["LaunchTemplateData"]


@pytest.mark.parametrize(
    ("instance_type", "efa_interfaces", "cards"),
    [
        ("p4d.24xlarge", 4, 4),
        ("p5.48xlarge", 32, 32),
        ("p5en.48xlarge", 16, 16),
        ("p6-b200.48xlarge", 8, 8),
        ("p6-b300.48xlarge", 16, 17),
        ("p5.4xlarge", 1, 1),
        ("g6e.48xlarge", 4, 4),
        ("c5n.18xlarge", 1, 1),
        ("g5.12xlarge", 1, 1),
        ("g5.xlarge", 0, 1),
    ],
)
def test_every_efa_interface_is_at_its_card(
    template_of: Callable[[str], Template], instance_type: str, efa_interfaces: int, cards: int
) -> None:
    interfaces = launch_data(template_of(cluster(instance_type)))["NetworkInterfaces"]
    efa = [found for found in interfaces if found["InterfaceType"] in ("efa", "efa-only")]
    assert len(efa) == efa_interfaces
    assert {found["NetworkCardIndex"] for found in interfaces} == set(range(cards))
    places = [(found["NetworkCardIndex"], found["DeviceIndex"]) for found in interfaces]
    assert len(set(places)) == len(places)
    assert places.count((0, 0)) == 1
    for found in interfaces:
        assert found["SubnetId"] and found["Groups"], "EC2 takes groups and subnet in the interface only"
        # Several interfaces never get one, and EC2 refuses the word; a single one must say no.
        assert found.get("AssociatePublicIpAddress") is (False if len(interfaces) == 1 else None)
    assert "SecurityGroupIds" not in launch_data(template_of(cluster(instance_type)))


def test_efa_off_gives_one_interface(template_of: Callable[[str], Template]) -> None:
    interfaces = launch_data(template_of(cluster(efa="'off'")))["NetworkInterfaces"]
    assert [found["InterfaceType"] for found in interfaces] == ["interface"]


def test_each_instance_type_has_a_template_in_order_of_preference(template_of: Callable[[str], Template]) -> None:
    template = template_of(cluster("p4d.24xlarge, p4de.24xlarge"))
    types = {
        logical_id: found["Properties"]["LaunchTemplateData"]["InstanceType"]
        for logical_id, found in template["Resources"].items()
        if found["Type"] == "AWS::EC2::LaunchTemplate"
    }
    assert sorted(types.values()) == ["p4d.24xlarge", "p4de.24xlarge"]
    value = json.dumps(parameter(template, "partitions/train"))
    assert value.index("p4d.24xlarge") < value.index("p4de.24xlarge")
    for logical_id in types:
        assert f'"Ref": "{logical_id}"' in value
        assert f'["{logical_id}", "LatestVersionNumber"]' in value


def parameter(template: Template, name: str) -> Any:
    found = {each["Name"]: each["Value"] for each in properties(template, "AWS::SSM::Parameter")}
    return found[f"/gpucluster/GpuCluster/{name}"]


def test_launched_nodes_are_known_by_their_tags(template: Template) -> None:
    specifications = launch_data(template)["TagSpecifications"]
    assert [each["ResourceType"] for each in specifications] == ["instance", "volume", "network-interface"]
    for each in specifications:
        tags = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        assert tags == {
            "gpucluster:cluster": "GpuCluster",
            "gpucluster:role": "compute",
            "gpucluster:partition": "train",
        }


def test_no_metadata_without_a_token_and_no_disk_unencrypted(template: Template) -> None:
    head = only(template, "AWS::EC2::Instance")["Properties"]
    for machine in (head, launch_data(template)):
        assert machine["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        assert [each["Ebs"]["Encrypted"] for each in machine["BlockDeviceMappings"]] == [True]
    assert properties(template, "AWS::EC2::Volume")[0]["Encrypted"] is True


@pytest.mark.parametrize(
    ("wish", "groups", "named"), [("cluster", 1, {"Ref"}), ("none", 0, None), ("my group", 0, "my group")]
)
def test_placement(template_of: Callable[[str], Template], wish: str, groups: int, named: Any) -> None:
    template = template_of(cluster(placement_group=wish))
    strategies = [each["Strategy"] for each in properties(template, "AWS::EC2::PlacementGroup")]
    assert strategies == ["cluster"] * groups
    placement = launch_data(template).get("Placement")
    name = placement and placement["GroupName"]
    assert (set(name) if isinstance(name, dict) else name) == named


def test_the_head_is_in_the_zone_asked_for_with_its_volume(template_of: Callable[[str], Template]) -> None:
    template = template_of(cluster())
    assert {each["AvailabilityZone"] for each in properties(template, "AWS::EC2::Subnet")} == {"us-east-1b"}
    volume = properties(template, "AWS::EC2::Volume")[0]
    assert (volume["AvailabilityZone"], volume["Size"]) == ("us-east-1b", 77)


def test_the_head_is_tagged_as_the_head(template: Template) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in only(template, "AWS::EC2::Instance")["Properties"]["Tags"]}
    assert re.fullmatch("[0-9a-f]{8}", tags.pop("gpucluster:generation"))
    assert tags == {"gpucluster:cluster": "GpuCluster", "gpucluster:role": "head", "Name": "GpuCluster-head"}


def test_the_head_is_deleted_before_resources_that_its_shutdown_needs(template: Template) -> None:
    needed = (
        "AWS::IAM::Policy",
        "AWS::Route53::HostedZone",
        "AWS::EC2::Route",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Volume",
        "AWS::SSM::Parameter",
        "AWS::SecretsManager::Secret",
    )
    after = only(template, "AWS::EC2::Instance")["DependsOn"]
    for logical_id, found in template["Resources"].items():
        of_another = found["Type"] == "AWS::IAM::Policy" and not of_a_node(found["Properties"])
        if found["Type"] in needed and not of_another:
            assert logical_id in after, f"the head does not depend on {logical_id}"


def test_a_bundle_is_announced_after_the_resources_that_it_uses(template: Template) -> None:
    """In an update the head applies it at once: a database or a partition that it names must not come after it."""
    (bundle,) = (key for key, found in template["Resources"].items() if key.startswith("ParametersBundle"))
    before = set(template["Resources"][bundle]["DependsOn"])
    assert set(only(template, "AWS::EC2::Instance")["DependsOn"]) <= before | {bundle}


def of_a_node(policy: dict[str, Any]) -> bool:
    return bool(policy["Roles"][0]["Ref"].startswith(("HeadRole", "ComputeRole")))


def test_creation_waits_for_the_heads_signal(template: Template) -> None:
    condition = only(template, "AWS::CloudFormation::WaitCondition")
    assert condition["Properties"]["Timeout"] == "1800"
    kinds = {template["Resources"][logical_id]["Type"] for logical_id in condition["DependsOn"]}
    assert kinds >= {
        "AWS::EC2::Instance",
        "AWS::SSM::Parameter",
        "AWS::Route53::RecordSet",
    }


def test_more_nodes_change_the_bundle_and_nothing_else(template_of: Callable[[str], Template]) -> None:
    """What a resource waits for, `DependsOn`, is no part of it: CloudFormation changes nothing for that."""
    before, after = (template_of(cluster(max_nodes=count))["Resources"] for count in (4, 5))
    changed = {
        logical_id
        for logical_id in before.keys() & after
        if before[logical_id].get("Properties") != after[logical_id].get("Properties")
    }
    names = {before[logical_id]["Properties"]["Name"] for logical_id in changed}
    assert names == {"/gpucluster/GpuCluster/bundle", "/gpucluster/GpuCluster/nodes/bundle"}
    new = {found["Type"] for logical_id, found in after.items() if logical_id not in before}
    assert new == {"AWS::CloudFormation::WaitConditionHandle", "AWS::CloudFormation::WaitCondition"}


def test_deploy_parameters(template: Template) -> None:
    names = {each["Name"] for each in properties(template, "AWS::SSM::Parameter")}
    wanted = ("bundle", "nodes/bundle", "network", "head", "host-key", "partitions/train")
    assert names == {f"/gpucluster/GpuCluster/{name}" for name in wanted}
    assert parameter(template, "host-key") == "pending"
    assert re.search(r'"version\\":\\"[0-9a-f]{16}\\"', json.dumps(parameter(template, "bundle")))


def test_outputs(template: Template) -> None:
    assert set(template["Outputs"]) == {
        "HeadInstanceId",
        "HeadPrivateIp",
        "InstanceConnectEndpointId",
        "Zone",
        "SsmPath",
        "BundleVersion",
    }
    assert template["Outputs"]["Zone"]["Value"] == "gpucluster.internal"


def test_partitions_may_have_the_names_of_other_parts(template_of: Callable[[str], Template]) -> None:
    text = cluster().replace("name: train", "name: home")
    assert parameter(template_of(text), "partitions/home")


def test_a_users_tags_do_not_replace_placement_groups() -> None:
    """CloudFormation's schema of AWS::EC2::PlacementGroup: Tags are create-only, so a new tag replaces the group."""
    from gpucluster import config
    from stacks.cluster import GpuCluster, cdk

    loaded = config.loads(cluster())
    with TemporaryDirectory() as folder:
        app = cdk.App(context=lookups(loaded.region), outdir=folder)
        stack = GpuCluster(app, loaded.name, config=loaded, account=ACCOUNT)
        cdk.Tags.of(stack).add("team", "vision")
        app.synth()
        template = json.loads(Path(folder, f"{loaded.name}.template.json").read_text())
    (group,) = properties(template, "AWS::EC2::PlacementGroup")
    assert group["Tags"] == [{"Key": "gpucluster:cluster", "Value": loaded.name}]
    vpc = next(iter(properties(template, "AWS::EC2::VPC")))
    assert {"Key": "team", "Value": "vision"} in vpc["Tags"], "other resources have it"


BIG = "ami-0123456789abcdef1"
ROOT = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1b
head_node: {root_volume: {gib: 120, iops: 6000, THROUGHPUT}}
partitions:
  - {name: train, instance_types: [c5.large], max_nodes: 1, root_volume: {gib: 200, throughput_mibps: 250}}
  - {name: big, instance_types: [c5.large], max_nodes: 1, image: BIG}
  - {name: plain, instance_types: [c5.large], max_nodes: 1}
""".replace("BIG", BIG)


def disk_of(mapping: dict[str, Any]) -> dict[str, Any]:
    assert mapping["DeviceName"] == "/dev/sda1"
    return {key: value for key, value in mapping["Ebs"].items() if key in ("VolumeSize", "Iops", "Throughput")}


def test_root_disks_are_as_the_file_has_them(template_of: Callable[[str], Template]) -> None:
    template = template_of(ROOT.replace(", THROUGHPUT", ""))
    (mapping,) = only(template, "AWS::EC2::Instance")["Properties"]["BlockDeviceMappings"]
    assert disk_of(mapping) == {"VolumeSize": 120, "Iops": 6000}
    disks = [
        disk_of(each["LaunchTemplateData"]["BlockDeviceMappings"][0])
        for each in properties(template, "AWS::EC2::LaunchTemplate")
    ]
    assert disks == [{"VolumeSize": 200, "Throughput": 250}, {"VolumeSize": 100}, {"VolumeSize": 100}]


def test_a_template_has_the_throughput_of_the_heads_disk(template_of: Callable[[str], Template]) -> None:
    """AWS::EC2::Instance has no property for it."""
    template = template_of(ROOT.replace("THROUGHPUT", "throughput_mibps: 500"))
    head = only(template, "AWS::EC2::Instance")["Properties"]
    named = template["Resources"][head["LaunchTemplate"]["LaunchTemplateId"]["Ref"]]["Properties"]["LaunchTemplateData"]
    assert disk_of(named["BlockDeviceMappings"][0]) == {"VolumeSize": 120, "Iops": 6000, "Throughput": 500}
    assert "BlockDeviceMappings" not in head and list(named) == ["BlockDeviceMappings"]


def test_tags_reach_the_heads_template_without_another_head_and_another_disk_is_another_template(
    template_of: Callable[[str], Template],
) -> None:
    """CloudFormation replaces an instance whose template or version changes."""

    def launched_from(text: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
        template = template_of(text)
        named = only(template, "AWS::EC2::Instance")["Properties"]["LaunchTemplate"]
        (own,) = template["Resources"][named["LaunchTemplateId"]["Ref"]]["Properties"]["TagSpecifications"]
        assert own["ResourceType"] == "launch-template"
        return named, own["Tags"]

    text = ROOT.replace("THROUGHPUT", "throughput_mibps: 500")
    before, plain = launched_from(text)
    tagged, tags = launched_from(text + "tags: {team: vision}")
    other, _ = launched_from(text.replace("500", "600"))
    assert plain == [{"Key": "gpucluster:cluster", "Value": "GpuCluster"}]
    assert tags == [*plain, {"Key": "team", "Value": "vision"}]
    assert tagged == before != other


def test_threads_off_are_cpu_options_of_those_types_that_have_them(template_of: Callable[[str], Template]) -> None:
    text = cluster("c5.18xlarge, c7a.large").replace("{{", "{").replace("max_nodes", "threads_per_core: 1, max_nodes")
    template = template_of(text.replace("volume_gib: 77", "volume_gib: 77, threads_per_core: 1"))
    assert only(template, "AWS::EC2::Instance")["Properties"]["CpuOptions"] == {"CoreCount": 1, "ThreadsPerCore": 1}
    options = {
        each["LaunchTemplateData"]["InstanceType"]: each["LaunchTemplateData"].get("CpuOptions")
        for each in properties(template, "AWS::EC2::LaunchTemplate")
    }
    assert options == {"c5.18xlarge": {"CoreCount": 36, "ThreadsPerCore": 1}, "c7a.large": None}
