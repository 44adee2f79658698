"""Compares the validators' estimates of sizes with synthesis: never less, and not much more."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from synthesis import synthesize

from gpucluster.config import loads
from gpucluster.config.checks.limits import (
    INTERFACE_BYTES,
    LAUNCH_TEMPLATE_BYTES,
    OTHER_BYTES,
    PARTITION_BYTES,
    estimated_bytes,
    estimated_resources,
)
from gpucluster.config.checks.partitions import PARAMETER_BYTES, TEMPLATE_BYTES
from gpucluster.errors import ConfigError

LONGEST_CLUSTER = "A-Cluster-With-The-Longest-Name-It-Takes"
LONGEST_PARTITION = "the-longest-of-names"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def many(count: int, *types: str) -> str:
    partitions = [{"name": f"part-{n}-of-many", "instance_types": types, "max_nodes": 10} for n in range(count)]
    return json.dumps({"name": LONGEST_CLUSTER, "region": "us-east-1"} | {"partitions": partitions})


def size(template: dict[str, Any]) -> int:
    """As CDK writes it: with suppress_template_indentation, JSON.stringify without blanks, in UTF-8."""
    return len(json.dumps(template, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("types", [["p5.48xlarge"], ["g5.xlarge", "g5.2xlarge", "g5.4xlarge"]], ids=len)
def test_partitions_are_no_larger_than_estimated_and_not_much_smaller(types: list[str]) -> None:
    text = many(10, *types)
    template, config = synthesize(text), loads(text)
    assert len(template["Resources"]) <= estimated_resources(config)
    assert size(template) <= estimated_bytes(config)
    of_partitions = estimated_bytes(config) - OTHER_BYTES
    assert of_partitions <= 1.5 * size(template), (PARTITION_BYTES, LAUNCH_TEMPLATE_BYTES, INTERFACE_BYTES)


def test_tags_are_no_larger_than_estimated() -> None:
    tags = {f"cost-centre-{number}": "a value of some length" for number in range(20)}
    text = json.dumps(json.loads(many(10, "g5.xlarge", "g5.2xlarge", "g5.4xlarge")) | {"tags": tags})
    assert size(synthesize(text)) <= estimated_bytes(loads(text)) <= 1.5 * size(synthesize(text))


@pytest.mark.parametrize("name", ["reference", "p4d-fsx-smddp"])
def test_everything_else_is_no_larger_than_estimated(name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    template, config = synthesize(text), loads(text)
    assert len(template["Resources"]) <= estimated_resources(config)
    assert size(template) <= estimated_bytes(config)


def test_the_parameter_of_a_partition_holds_as_many_types_as_the_validator_says() -> None:
    """With the longest name of a type and of a launch template's id that AWS gives."""
    entry = {"instance_type": "p6-b300.48xlarge", "launch_template_id": "lt-0123456789abcdef0", "version": "12345"}
    most = (PARAMETER_BYTES - TEMPLATE_BYTES) // TEMPLATE_BYTES
    value = {"instance_types": [entry] * most, "subnet_id": "subnet-0123456789abcdef0"}
    assert len(json.dumps(value, separators=(",", ":"))) <= PARAMETER_BYTES


def lengths(value: Any, schema: Any, definitions: dict[str, Any], path: str) -> Iterator[tuple[str, int, int]]:
    """For every plain text in a resource's properties: its path, its length and its limit."""
    reference = schema.get("$ref", "").rpartition("/")[2]
    schema = definitions.get(reference, schema)
    if isinstance(value, str) and "maxLength" in schema:
        yield path, len(value), schema["maxLength"]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lengths(inner, schema.get("properties", {}).get(key, {}), definitions, f"{path}.{key}")
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from lengths(inner, schema.get("items", {}), definitions, f"{path}[{index}]")


def test_the_longest_names_are_no_longer_than_cloudformation_takes() -> None:
    text = (EXAMPLES / "reference.yaml").read_text()
    text = text.replace("name: GpuCluster ", f"name: {LONGEST_CLUSTER} ").replace(
        "name: small", f"name: {LONGEST_PARTITION}"
    )
    found = []
    for id_, resource in synthesize(text)["Resources"].items():
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource["Type"]).schema
        found += lengths(resource.get("Properties", {}), schema, schema.get("definitions", {}), id_)
    assert [where for where, length, most in found if length > most] == []
    assert any(LONGEST_CLUSTER in json.dumps(each) for each in synthesize(text)["Resources"].values())
    assert len(found) > 20


def test_no_allowed_name_collides_with_the_stacks() -> None:
    names = ["profile", "node-profile", "placement", "partitions"]
    partitions = [{"name": name, "instance_types": ["g5.xlarge"], "max_nodes": 1} for name in names]
    template = synthesize(json.dumps({"name": "a", "region": "us-east-1", "partitions": partitions}))
    kinds = [resource["Type"] for resource in template["Resources"].values()]
    assert kinds.count("AWS::EC2::LaunchTemplate") == len(names)


def rsa_key(number: int) -> str:
    """The line of a public key of 4096 bits, as ssh-keygen writes it: RFC 4253, section 6.6."""
    modulus = b"\0" + bytes([200]) + sha512(str(number).encode()).digest() * 7 + b"\1" * 63
    fields = (b"ssh-rsa", b"\1\0\1", modulus)
    blob = b"".join(len(each).to_bytes(4, "big") + each for each in fields)
    return f"ssh-rsa {b64encode(blob).decode()} user{number}@laptop"


def with_users(count: int) -> str:
    users = [{"name": f"user{number}", "uid": 2000 + number, "public_key": rsa_key(number)} for number in range(count)]
    partitions = [{"name": "train", "instance_types": ["g5.xlarge"], "max_nodes": 1}]
    return json.dumps({"name": "many", "region": "us-east-1", "partitions": partitions, "users": users})


@pytest.mark.parametrize("count", [1, 100])
def test_the_copy_of_the_users_is_part_of_the_estimate(count: int) -> None:
    text = with_users(count)
    template = synthesize(text)
    estimate, written = estimated_bytes(loads(text)), size(template)
    assert written <= estimate <= written + OTHER_BYTES


def test_users_whose_keys_fill_the_template_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(with_users(1500))
    assert [(problem.key, problem.validator) for problem in caught.value.problems] == [("users", "template-size")]


@pytest.mark.parametrize(
    ("count", "entry"),
    [
        (1, {"type": "efs"}),
        (12, {"type": "efs"}),
        (1, {"type": "fsx-lustre", "capacity_gib": 1200}),
        (8, {"type": "fsx-lustre", "capacity_gib": 1200, "deployment": "persistent-2"}),
    ],
)
def test_file_systems_are_no_larger_than_estimated(count: int, entry: dict[str, Any]) -> None:
    repositories = [{"path": f"/folder{n}", "s3": f"s3://a-bucket-with-a-long-name-{n}/a/prefix"} for n in range(8)]
    extra = {"data_repositories": repositories} if "deployment" in entry else {}
    storage = [{"mount": f"/data/number-{n}", **entry, **extra} for n in range(count)]
    partitions = [{"name": "train", "instance_types": ["g5.xlarge"], "max_nodes": 1}]
    text = json.dumps({"name": LONGEST_CLUSTER, "region": "us-east-1", "partitions": partitions, "storage": storage})
    template, bare = synthesize(text), synthesize(many(1, "g5.xlarge"))
    config, alone = loads(text), loads(many(1, "g5.xlarge"))
    added = len(template["Resources"]) - len(bare["Resources"])
    assert added <= estimated_resources(config) - estimated_resources(alone) <= added + 3 * count
    grown = size(template) - size(bare)
    assert grown <= estimated_bytes(config) - estimated_bytes(alone) <= 1.3 * grown
