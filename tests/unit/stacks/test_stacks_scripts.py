"""The user's own scripts: in the bundle and in the template, and what an update says of a changed file."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gpucluster import config, render, updates

Template = dict[str, Any]

PIN = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CLUSTER = f"""
name: c
region: us-east-1
head_node: {{instance_type: m6i.large, scripts: [{{source: "s3://heads/a*.sh", sha256: {PIN}, time_limit_minutes: 5}}]}}
partitions:
  - name: train
    instance_types: [g5.12xlarge]
    max_nodes: 4
    scripts: [{{source: s3://nodes/b.sh, sha256: {PIN}}}, {{source: s3://heads/c.sh, sha256: {PIN}}}]
  - {{name: plain, instance_types: [g5.12xlarge], max_nodes: 4}}
parameter_servers: {{scripts: [{{source: s3://nodes/b.sh, sha256: {PIN}, when: before}}]}}
security: {{kms_key_arn: "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"}}
"""


@pytest.fixture(scope="module")
def template(template_of: Callable[[str], Template]) -> Template:
    return template_of(CLUSTER)


def readable(template: Template, role: str) -> set[str]:
    """Objects that the role may read, without bundles."""
    found = set[str]()
    for logical_id, each in template["Resources"].items():
        if each["Type"] == "AWS::IAM::Policy" and logical_id.startswith(role):
            for statement in each["Properties"]["PolicyDocument"]["Statement"]:
                if statement["Action"] == "s3:GetObject":
                    found |= set(json.dumps(statement["Resource"]).split('"'))
    return {each.removeprefix(":s3:::") for each in found if each.startswith((":s3:::heads", ":s3:::nodes"))}


def test_each_role_may_read_exactly_its_scripts(template: Template) -> None:
    assert readable(template, "HeadRole") == {"heads/a${*}.sh"}
    assert readable(template, "ComputeRole") == {"nodes/b.sh", "heads/c.sh"}


def test_a_head_node_and_slurm_wait_for_the_scripts(template: Template) -> None:
    (condition,) = [
        each for each in template["Resources"].values() if each["Type"] == "AWS::CloudFormation::WaitCondition"
    ]
    assert condition["Properties"]["Timeout"] == str(1800 + 5 * 60)
    files = render.bundle(config.loads(CLUSTER))
    lines = {line.split()[0]: line for line in files["slurm/slurm.conf"].splitlines() if "PartitionName" in line}
    assert "ResumeTimeout=5400 " in lines["PartitionName=train"]
    assert "ResumeTimeout=1800 " in lines["PartitionName=plain"]
    assert "LOCK_LIMIT_S=1700" in files["head.sh"], "another run may wait for the first boot"


def test_the_bundle_has_a_list_for_each_kind_of_node() -> None:
    files = render.bundle(config.loads(CLUSTER))
    assert {name: text for name, text in files.items() if name.startswith("scripts/")} == {
        "scripts/head": f"user_script after a-.sh 300 {PIN} 's3://heads/a*.sh'\n",
        "scripts/partitions/train": f"user_script after b.sh 1800 {PIN} s3://nodes/b.sh\n"
        f"user_script after c.sh 1800 {PIN} s3://heads/c.sh\n",
        "scripts/partitions/ps": f"user_script before b.sh 1800 {PIN} s3://nodes/b.sh\n",
    }


def test_a_local_script_travels_as_it_is_and_its_change_is_a_change_of_the_cluster(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho {{ 1 }} ${#a[@]} \u00e9\n"
    script, file = tmp_path / "sub dir" / "x.sh", tmp_path / "cluster.yaml"
    script.parent.mkdir()
    script.write_text(text, encoding="utf-8")
    file.write_text(CLUSTER.replace("s3://nodes/b.sh, sha256: " + PIN, "./sub dir/x.sh", 1))
    old = config.load(file)
    files, digest = render.bundle(old), sha256(text.encode()).hexdigest()
    assert files[f"scripts/files/{digest}"] == text
    assert f"after x.sh 1800 {digest} files/{digest}" in files["scripts/partitions/train"]
    deployed = updates.read(updates.metadata(old, availability_zone="us-east-1a")).config
    assert updates.compare(deployed, old) == ()
    script.write_text("#!/bin/sh\n")
    (change,) = updates.compare(deployed, config.load(file))
    assert change.difference.key == "partitions[].scripts"
