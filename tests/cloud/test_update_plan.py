"""How `plan` and `up` report changes, against CloudFormation's API: the deployed file is read back from the stack."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpucluster import updates
from gpucluster.cluster import local_cloud, stack
from tests import warm
from tests.cloud.played_head import Head

NAME = "Planned"
CLUSTER = f"""
name: {NAME}
region: us-east-1
head_node: {{instance_type: m6i.large, volume_gib: 20, on_delete: delete}}
partitions:
  - {{name: train, instance_types: [g5.12xlarge], max_nodes: 4}}
"""


def gpucluster(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.gpucluster("-c", str(file), *arguments)


def said(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def effects(answer: dict[str, Any]) -> dict[str, str]:
    return {change["key"]: change["effect"] for change in answer["changes"]}


def test_changes_are_listed_first_and_refused_if_they_lose_data(control_plane: Any, tmp_path: Path) -> None:
    file, cloudformation = tmp_path / "cluster.yaml", control_plane.client("cloudformation")
    file.write_text(CLUSTER)
    local_cloud.write(
        file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    with Head(control_plane, NAME):
        assert effects(said(gpucluster(file, "up"))) == {}
        deployed = updates.read(stack.template_metadata(cloudformation, NAME))
        assert (deployed.config.name, deployed.availability_zone) == (NAME, "us-east-1a")

        file.write_text(CLUSTER.replace("max_nodes: 4", "max_nodes: 3, purchase: spot"))
        planned = said(gpucluster(file, "plan", "--json"))
        expected = {"partitions[train].max_nodes": "in place", "partitions[train].purchase": "new nodes"}
        assert effects(planned) == expected
        updated = gpucluster(file, "up")
        assert effects(said(updated)) == expected
        assert "changes: 1 in place, 1 for new nodes only, head node untouched" in updated.stderr

        file.write_text(file.read_text().replace("volume_gib: 20", "volume_gib: 10"))
        before = cloudformation.describe_stacks(StackName=NAME)["Stacks"][0]
        planned = gpucluster(file, "plan")
        assert planned.returncode == 2 and "refused        head_node.volume_gib" in planned.stdout, planned.stderr
        assert "`up` would be refused: head_node.volume_gib: cannot be changed: EBS" in planned.stderr
        refused = gpucluster(file, "up", "--drain")
        assert refused.returncode == 2, refused.stderr
        assert "head_node.volume_gib: cannot be changed: EBS cannot shrink a volume" in refused.stderr
        assert cloudformation.describe_stacks(StackName=NAME)["Stacks"][0] == before

        file.write_text(CLUSTER.replace("us-east-1", "us-west-2"))
        for verb in ("plan", "up"):
            moved = gpucluster(file, verb)
            assert moved.returncode == 2, moved.stderr
            assert f"region: {NAME} is in us-east-1, and cannot move to us-west-2" in moved.stderr
        file.write_text(CLUSTER.replace("max_nodes: 4", "max_nodes: 3, purchase: spot") + "silence: [subnet-zone]\n")
        only_metadata = gpucluster(file, "up")
        assert said(only_metadata)["changed"] is False
        assert effects(said(only_metadata)) == {"silence": "nothing"}

    assert gpucluster(file, "down", "--yes").returncode == 0


def test_after_a_failed_update_changes_are_compared_with_the_file_before_it(control_plane: Any, tmp_path: Path) -> None:
    """After a rollback CloudFormation shows the earlier template and its metadata."""
    cloudformation, name = control_plane.client("cloudformation"), "RolledBack"

    def template(kept: str, **properties: str) -> str:
        parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "1", **properties}}
        return json.dumps({"Metadata": {"GpuCluster": kept}, "Resources": {"One": parameter}})

    cloudformation.create_stack(StackName=name, TemplateBody=template("first"))
    cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
    cloudformation.update_stack(StackName=name, TemplateBody=template("second", Type="NoSuchType"))
    for _ in stack.follow(cloudformation, name, interval_s=0.2):
        pass
    assert stack.status(cloudformation, name) == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.template_metadata(cloudformation, name) == {"GpuCluster": "first"}
    with pytest.raises(cloudformation.exceptions.ClientError, match="No updates are to be performed"):
        cloudformation.update_stack(StackName=name, TemplateBody=template("third"))
    cloudformation.delete_stack(StackName=name)
