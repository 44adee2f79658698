"""The user's tags: on every resource of the stack that can have tags, and on all that its launch templates launch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from synthesis import ACCOUNT, lookups

from gpucluster import config, render

Template = dict[str, Any]

TEXT = (Path(__file__).resolve().parents[3] / "examples" / "reference.yaml").read_text()
TEAM = {"Key": "team", "Value": "vision: 4+"}
CLUSTER = """
name: c
region: us-east-1
tags: {team: "vision: 4+"}
head_node: {instance_type: m6i.large}
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4, purchase: spot}]
storage:
  - {mount: /burst, type: fsx-lustre, capacity_gib: 1200, deployment: scratch-2, lifetime: jobs,
     data_repositories: [{path: /in, s3: "s3://my-bucket/in"}]}
  - {mount: /plain, type: fsx-lustre, capacity_gib: 1200}
  - {mount: /efs, type: efs}
monitoring: {alarm_email: a@example.com}
network: {ssh_from: [192.0.2.0/24]}
accounting: rds
budget: {monthly_usd: 900000, email: a@example.com, at_limit: stop-nodes}
"""


@pytest.fixture(scope="module")
def template(template_of: Callable[[str], Template]) -> Template:
    return template_of(CLUSTER)


def tag_properties(resource_type: str) -> list[str]:
    """The properties that hold its tags, in CloudFormation's schema of the type."""
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema
    names = ("Tags", "FileSystemTags", "HostedZoneTags", "TagSpecifications", "ResourceTags")
    return [name for name in names if name in schema["properties"]]


def pairs(tags: Any) -> list[tuple[str, str]]:
    if isinstance(tags, Mapping):
        return list(tags.items())
    return [(tag["Key"], tag["Value"]) for each in tags for tag in each.get("Tags", [each])]


NEVER = {"AWS::EC2::PlacementGroup": "its tags are create-only: a change would replace it under its nodes"}


def test_every_resource_that_can_have_tags_has_the_users(template: Template) -> None:
    bare, tagged = set(), set()
    for found in template["Resources"].values():
        for name in tag_properties(found["Type"]):
            has = ("team", "vision: 4+") in pairs(found.get("Properties", {}).get(name, []))
            (tagged if has else bare).add(found["Type"])
    assert bare == set(NEVER)
    assert {"AWS::EC2::Volume", "AWS::Logs::LogGroup", "AWS::SSM::Parameter", "AWS::EC2::LaunchTemplate"} <= tagged


def test_launches_tag_instances_disks_and_network_interfaces(template: Template) -> None:
    (found,) = [each for each in template["Resources"].values() if each["Type"] == "AWS::EC2::LaunchTemplate"]
    specifications = found["Properties"]["LaunchTemplateData"]["TagSpecifications"]
    assert [each["ResourceType"] for each in specifications] == ["instance", "volume", "network-interface"]
    assert all(TEAM in each["Tags"] for each in specifications)


def test_the_heads_disks_have_them(template: Template) -> None:
    head = next(each for each in template["Resources"].values() if each["Type"] == "AWS::EC2::Instance")
    assert head["Properties"]["PropagateTagsToVolumeOnCreation"] is True
    (policy,) = [each for each in template["Resources"].values() if each["Type"] == "AWS::DLM::LifecyclePolicy"]
    assert policy["Properties"]["PolicyDetails"]["Schedules"][0]["CopyTags"] is True, "daily snapshots"


def test_the_head_may_set_them_on_file_systems_that_it_makes(template: Template) -> None:
    text = json.dumps(template["Resources"])
    assert '"aws:TagKeys": ["Name", "gpucluster:cluster", "team"]' in text
    parameter = next(
        each["Properties"]["Value"]
        for each in template["Resources"].values()
        if each.get("Properties", {}).get("Name") == "/gpucluster/c/storage/burst"
    )
    assert "team" not in json.dumps(parameter), "a parameter has 4 KB; fleet.json has the tags once"
    assert json.loads(render.bundle(config.loads(CLUSTER))["fleet.json"])["tags"] == {"team": "vision: 4+"}


def test_a_tag_is_left_out_where_the_service_refuses_its_key(template_of: Callable[[str], Template]) -> None:
    made = template_of(CLUSTER.replace("tags: {team:", "tags: {cost center: vision, team:"))
    keys = {
        each["Type"]: {key for key, _ in pairs(each["Properties"]["Tags"])}
        for each in made["Resources"].values()
        if each["Type"] in ("AWS::DLM::LifecyclePolicy", "AWS::EC2::Volume")
    }
    assert "cost center" in keys["AWS::EC2::Volume"]
    assert "cost center" not in keys["AWS::DLM::LifecyclePolicy"]
    assert "team" in keys["AWS::DLM::LifecyclePolicy"]


def test_the_stack_itself_has_none_of_them(tmp_path: Path) -> None:
    """CloudFormation would give them to placement groups, and replace those when a tag changes."""
    from stacks.cluster import GpuCluster, cdk

    cluster = config.loads(CLUSTER)
    app = cdk.App(context=lookups(cluster.region), outdir=str(tmp_path))
    GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
    app.synth()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["artifacts"]["c"]["properties"]["tags"] == {"gpucluster:cluster": "c"}
