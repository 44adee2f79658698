"""Which cluster a verb is about, after the file's name or region or the caller's account has changed since `up`. No
CDK: the stack has one parameter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cluster import local_cloud, register, stack
from tests import warm

CLUSTER = """
name: Alpha
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 20}
partitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 2}]
"""
TEMPLATE = json.dumps(
    {"Resources": {"One": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "1"}}}}
)
ACCOUNT = "123456789012"
Run = Callable[..., Any]


@pytest.fixture
def file(control_plane: Any, tmp_path: Path) -> Iterator[Path]:
    """Alpha runs, `up` created it, and all names of this file are in one local cloud."""
    cloudformation = control_plane.client("cloudformation")
    cloudformation.create_stack(StackName="Alpha", TemplateBody=TEMPLATE)
    cloudformation.get_waiter("stack_create_complete").wait(StackName="Alpha", WaiterConfig={"Delay": 1})
    found = tmp_path / "cluster.yaml"
    found.write_text(CLUSTER)
    for name in ("Alpha", "Beta"):
        record = local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
        local_cloud.write(found, name, record)
    register.add(found, name="Alpha", region="us-east-1", account=ACCOUNT)
    yield found
    cloudformation.delete_stack(StackName="Alpha")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="Alpha", WaiterConfig={"Delay": 1})


def said(file: Path, verb: str, *options: str, code: int) -> str:
    done = warm.gpucluster("-c", str(file), verb, *options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and '"deleted": true' not in done.stdout
    return done.stdout + done.stderr


def test_another_name_does_not_hide_the_cluster_that_runs(file: Path, control_plane: Any) -> None:
    file.write_text(CLUSTER.replace("Alpha", "Beta"))
    there = "`gpucluster up` created Alpha in us-east-1, account 123456789012"
    refused = said(file, "down", "--yes", code=2)
    assert f"nothing was deleted: {there}" in refused and "set name: Alpha" in refused
    assert f"hint: {there} from this file: set name: Alpha to use it" in said(file, "status", code=3)
    costs = "warning: Alpha in us-east-1, account 123456789012 still exists and costs money"
    assert costs in said(file, "plan", code=0)
    assert stack.status(control_plane.client("cloudformation"), "Alpha") == "CREATE_COMPLETE"


@pytest.mark.parametrize("verb", ["down", "up", "plan", "status", "stop"])
def test_another_region_is_refused(file: Path, verb: str) -> None:
    file.write_text(CLUSTER.replace("us-east-1", "us-west-2"))
    options = ["--yes"] if verb in ("down", "up") else []
    assert "region: Alpha is in us-east-1, and cannot move to us-west-2" in said(file, verb, *options, code=2)


@pytest.mark.parametrize("verb", ["down", "up", "plan", "status", "stop", "start", "jobs"])
def test_credentials_of_another_account_are_refused(file: Path, verb: str) -> None:
    register.remove(file, name="Alpha", region="us-east-1", account=ACCOUNT)
    register.add(file, name="Alpha", region="us-east-1", account="999999999999")
    options = ["--yes"] if verb in ("down", "up") else []
    refused = said(file, verb, *options, code=2)
    assert "created Alpha in us-east-1, account 999999999999, and your AWS credentials are of account" in refused
    assert "AWS_PROFILE" in refused


def test_a_local_cluster_does_not_hide_the_one_on_aws(file: Path) -> None:
    register.remove(file, name="Alpha", region="us-east-1", account=ACCOUNT)
    register.add(file, name="Alpha", region="us-east-1", account="999999999999")
    local_cloud.record_path(file, "Alpha").unlink()
    assert "created Alpha in us-east-1, account 999999999999" in said(file, "up", "--local", "--yes", code=2)
    assert local_cloud.read(file, "Alpha") is None


def test_a_cluster_that_was_deleted_in_another_way_is_forgotten(file: Path, control_plane: Any) -> None:
    control_plane.client("cloudformation").delete_stack(StackName="Alpha")
    control_plane.client("cloudformation").get_waiter("stack_delete_complete").wait(StackName="Alpha")
    file.write_text(CLUSTER.replace("Alpha", "Beta"))
    done = warm.gpucluster("-c", str(file), "down", "--yes")
    assert done.returncode == 0 and "nothing to delete: there is no stack Beta" in done.stderr
    assert register.read(file) == []
