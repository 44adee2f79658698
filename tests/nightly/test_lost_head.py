"""A head node that is terminated, or replaced on purpose, against CloudFormation's and EC2's APIs. Nothing boots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpucluster import updates
from gpucluster.cluster import local_cloud, stack
from tests.cloud.played_head import Head
from tests.cloud.test_update_plan import CLUSTER, gpucluster, said

SUBJECTS = [
    "gpucluster/cli/changes.py",
    "gpucluster/cli/head.py",
    "gpucluster/cli/up.py",
    "gpucluster/cluster/data_volume.py",
    "gpucluster/cluster/deployment.py",
    "gpucluster/cluster/existing.py",
    "gpucluster/cluster/replacements.py",
    "gpucluster/updates/record.py",
    "stacks/cluster.py",
    "stacks/head.py",
    "stacks/record.py",
    "stacks/storage/home.py",
]
COVERED_BY = (
    "a terminated head node under a running job, booted, in test_changes.py; test_replacements.py, test_cli_changes.py"
)
NAME = "Lost"


def head_of(answer: dict[str, Any]) -> str:
    return str(answer["outputs"]["HeadInstanceId"])


def volumes(control_plane: Any) -> list[str]:
    ours = [{"Name": "tag:gpucluster:home", "Values": [NAME]}]
    return [each["VolumeId"] for each in control_plane.client("ec2").describe_volumes(Filters=ours)["Volumes"]]


def test_up_replaces_a_terminated_head_and_other_checkouts_keep_the_new_one(control_plane: Any, tmp_path: Path) -> None:
    file, ec2 = tmp_path / "cluster.yaml", control_plane.client("ec2")
    file.write_text(CLUSTER.replace("name: Planned", f"name: {NAME}"))
    local_cloud.write(
        file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    with Head(control_plane, NAME):
        first = said(gpucluster(file, "up"))
        volume = volumes(control_plane)
        ec2.terminate_instances(InstanceIds=[head_of(first)])
        ec2.get_waiter("instance_terminated").wait(InstanceIds=[head_of(first)], WaiterConfig={"Delay": 1})

        for verb in ("status", "jobs"):
            asked = gpucluster(file, verb)
            assert asked.returncode == 3
            assert f"error: the head node {head_of(first)} is terminated\nhint: `gpucluster up` creates" in asked.stderr

        planned = gpucluster(file, "plan")
        assert f"head replaced  {head_of(first)} was terminated" in planned.stdout, planned.stderr
        assert json.loads(gpucluster(file, "plan", "--json").stdout)["lost_heads"] == [head_of(first)]
        again = gpucluster(file, "up")
        second = said(again)
        assert (first["lost_heads"], second["lost_heads"]) == ([], [head_of(first)])
        assert f"the head node {head_of(first)} was terminated: creating another with the same volume" in again.stderr
        assert second["changed"] is True and head_of(second) != head_of(first)
        assert volumes(control_plane) == volume

        context = tmp_path / "cdk.context.json"
        context.unlink()  # as in another checkout
        kept = said(gpucluster(file, "up"))
        assert kept["changed"] is False and head_of(kept) == head_of(second)
        assert context.exists(), "a deployment by `cdk deploy` alone keeps it too"

        third = said(gpucluster(file, "head", "replace"))
        assert third["before"] == head_of(second) != third["instance_id"]
        cloudformation = control_plane.client("cloudformation")
        assert updates.head_replacements(stack.template_metadata(cloudformation, NAME)) == 2
        assert said(gpucluster(file, "up"))["changed"] is False

        file.write_text(file.read_text().replace("max_nodes: 4", "max_nodes: 3"))
        refused = gpucluster(file, "head", "replace")
        assert refused.returncode == 2 and "has changes that are not deployed" in refused.stderr
    file.write_text(file.read_text().replace("max_nodes: 3", "max_nodes: 4"))
    a_replacement_that_fails_is_not_made_up_for_later(control_plane, file, third["instance_id"])
    assert gpucluster(file, "down", "--yes").returncode == 0


def a_replacement_that_fails_is_not_made_up_for_later(control_plane: Any, file: Path, head: str) -> None:
    before = json.loads(file.with_name("cdk.context.json").read_text())
    with Head(control_plane, NAME, "FAILURE", "step=volume line=1: no"):
        failed = gpucluster(file, "head", "replace")
    assert failed.returncode == 3 and "step=volume line=1: no" in failed.stderr, failed.stderr
    assert f"replacing the head node {head}: another one takes over its volume" in failed.stderr
    assert "`gpucluster head replace` tries again" in failed.stderr
    assert stack.status(control_plane.client("cloudformation"), NAME) == "UPDATE_ROLLBACK_COMPLETE"
    assert json.loads(file.with_name("cdk.context.json").read_text()) == before
    planned = gpucluster(file, "plan")
    assert "changes: no changes" in planned.stdout and "head replaced" not in planned.stdout, planned.stdout
    with Head(control_plane, NAME):
        assert head_of(said(gpucluster(file, "up"))) == head
