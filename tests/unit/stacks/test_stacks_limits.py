"""Fifty partitions against the limits of CloudFormation, IAM and Parameter Store.

CloudFormation takes 500 resources and 1 MB of template (1,000,000 bytes are kept to here); the inline policies of a
role have 10,240 characters together, a standard parameter 4 KB.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gpucluster.config.fields import MOUNT_CHARACTERS

Template = dict[str, Any]

MAX_RESOURCES = 500
MAX_INLINE_POLICY_CHARACTERS = 10_240
MAX_PARAMETER_BYTES = 4096
TOKEN_CHARACTERS = 70
"""What an intrinsic function may become: the ARN of a role or a template's id are shorter."""


def partitions(count: int, instance_type: str, max_nodes: int) -> str:
    entry = "  - {{name: part-of-{}x, instance_types: [{}], max_nodes: {}}}\n"
    entries = "".join(entry.format(number, instance_type, max_nodes) for number in range(1, count + 1))
    return f"name: GpuCluster\nregion: us-east-1\npartitions:\n{entries}"


P4D = partitions(50, "p4d.24xlarge", 500)
P5 = partitions(50, "p5.48xlarge", 500)


@pytest.mark.parametrize(("text", "max_bytes"), [(P4D, 400_000), (P5, 1_000_000)], ids=["p4d", "p5"])
def test_fifty_partitions_fit_into_one_template(
    template_of: Callable[[str], Template], text: str, max_bytes: int
) -> None:
    template = template_of(text)
    assert len(template["Resources"]) <= MAX_RESOURCES
    assert len(json.dumps(template, separators=(",", ":"))) < max_bytes


def test_fifty_partitions_fit_into_the_policies_of_a_role(template_of: Callable[[str], Template]) -> None:
    sizes: Counter[str] = Counter()
    for resource in template_of(P5)["Resources"].values():
        if resource["Type"] == "AWS::IAM::Policy":
            for role in resource["Properties"]["Roles"]:
                sizes[role["Ref"]] += characters(resource["Properties"]["PolicyDocument"])
    assert sizes
    assert max(sizes.values()) <= MAX_INLINE_POLICY_CHARACTERS, sizes


def test_every_parameter_fits(template_of: Callable[[str], Template]) -> None:
    types = "p5.48xlarge, p5en.48xlarge, p5e.48xlarge, p4d.24xlarge, p4de.24xlarge, p6-b200.48xlarge"
    template = template_of(partitions(1, types, 500))
    parameters = {
        name: characters(resource["Properties"]["Value"])
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::SSM::Parameter"
    }
    assert max(parameters.values()) <= MAX_PARAMETER_BYTES, parameters


LONGEST = {"GroupDescription": 255, "AlarmName": 255, "LogGroupName": 512}
TAG_CHARACTERS = 256


def test_the_longest_mount_fits_wherever_it_stands(template_of: Callable[[str], Template]) -> None:
    name, mounts = "c" * 40, [f"/{letter * (MOUNT_CHARACTERS - 1)}" for letter in "abcd"]
    link = {"path": "/a", "s3": "s3://bucket", "import": ["new"], "export": ["new", "changed", "deleted"]}
    lustre = {"type": "fsx-lustre", "deployment": "scratch-2", "data_repositories": [link]}
    ram = {"type": "beegfs-ram", "partition": "part-of-1x", "gib_per_node": 100, "scope": "job"}
    kinds = [lustre, {**lustre, "lifetime": "jobs"}, {"type": "efs"}, ram]
    storage = json.dumps([{"mount": mount, **kind} for mount, kind in zip(mounts, kinds, strict=True)])
    text = partitions(1, "p4d.24xlarge", 4).replace("GpuCluster", name) + f"storage: {storage}\n"
    held: Counter[str] = Counter()
    for resource in template_of(text)["Resources"].values():
        properties = resource.get("Properties", {})
        tags = [tag for tag in properties.get("Tags", []) if isinstance(tag, dict)]
        assert all(len(tag["Value"]) <= TAG_CHARACTERS for tag in tags if isinstance(tag["Value"], str)), tags
        for key in LONGEST.keys() & properties.keys():
            assert len(properties[key]) <= LONGEST[key], properties[key]
            held[key] += any(mount.strip("/") in properties[key] for mount in mounts)
    assert held == {"GroupDescription": 3, "AlarmName": 1, "LogGroupName": 2}


def characters(value: Any) -> int:
    """As AWS counts: JSON without blanks, intrinsic functions as long as what they become may be."""
    if isinstance(value, dict) and len(value) == 1:
        (name, inner), *_ = value.items()
        if name == "Fn::Join":
            return sum(characters(part) for part in inner[1])
        if name in ("Ref", "Fn::GetAtt", "Fn::Sub"):
            return TOKEN_CHARACTERS
    if isinstance(value, dict):
        return 2 + sum(len(json.dumps(key)) + 2 + characters(inner) for key, inner in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + characters(inner) for inner in value)
    return len(json.dumps(value, separators=(",", ":")))
