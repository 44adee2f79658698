"""Our stack through the command line and the real CDK CLI, against the control plane alone: nothing boots.

A stand-in for the head node signals on the wait handle that a bundle is applied.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
NAME = "UnderTest"
CLUSTER = """
name: UnderTest
region: us-east-1
head_node: {{instance_type: m6i.large, volume_gib: 20}}
partitions:
  - {{name: train, instance_types: [{instance_type}], max_nodes: {max_nodes}}}
"""


@dataclass
class Cluster:
    file: Path
    control_plane: Any

    def describe(self, *, max_nodes: int = 4, instance_type: str = "g5.12xlarge") -> None:
        self.file.write_text(CLUSTER.format(max_nodes=max_nodes, instance_type=instance_type))

    def gpucluster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return warm.gpucluster("-c", str(self.file), *arguments)

    def cdk(self, verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        from gpucluster.cluster import cdk, local_cloud

        record = local_cloud.read(self.file, NAME)
        argv = cdk.argv(verb, NAME, *options, config_file=self.file, assembly=self.file.parent / "cdk.out")
        environment = cdk.environment(local_cloud.environment(record, region="us-east-1"), os.environ)
        return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)

    def status(self) -> str | None:
        from gpucluster.cluster import stack

        return stack.status(self.control_plane.client("cloudformation"), NAME)

    def resources(self) -> dict[str, str]:
        pages = self.control_plane.client("cloudformation").get_paginator("list_stack_resources")
        return {
            found["LogicalResourceId"]: found["PhysicalResourceId"]
            for page in pages.paginate(StackName=NAME)
            for found in page["StackResourceSummaries"]
        }


@pytest.fixture
def cluster(control_plane: Any, tmp_path: Path) -> Iterator[Cluster]:
    from gpucluster.cluster import local_cloud

    found = Cluster(tmp_path / "cluster.yaml", control_plane)
    found.describe()
    local_cloud.write(
        found.file, NAME, local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    )
    yield found
    if found.status():
        found.gpucluster("down", "--yes")


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_cluster_is_created_enlarged_and_deleted(cluster: Cluster) -> None:
    with Head(cluster.control_plane, NAME) as head:
        first = last_line(cluster.gpucluster("up"))
        assert first["changed"] is True
        assert first["outputs"]["BundleVersion"] == head.versions[-1]
        before = cluster.resources()

        diff = cluster.cdk("diff", "--fail")
        assert diff.returncode == 0 and "There were no differences" in diff.stdout + diff.stderr
        again = cluster.gpucluster("up")
        assert last_line(again)["changed"] is False and "no changes" in again.stderr

        (listed,) = last_line(cluster.gpucluster("list", "--json"))["clusters"]
        assert (listed["name"], listed["stack"], listed["head"]) == (NAME, "CREATE_COMPLETE", "running")
        assert (listed["region"], listed["nodes"]) == ("us-east-1", 0)
        stopped_and_started(cluster, first["outputs"]["HeadInstanceId"])

        cluster.describe(max_nodes=5)
        grown = last_line(cluster.gpucluster("up"))
        assert grown["outputs"]["HeadInstanceId"] == first["outputs"]["HeadInstanceId"]
        assert grown["outputs"]["BundleVersion"] == head.versions[-1] != first["outputs"]["BundleVersion"]
        after = cluster.resources()
        kept = {logical_id for logical_id in before if "Handle" not in logical_id and "Live" not in logical_id}
        assert {logical_id: before[logical_id] for logical_id in kept} == {each: after.get(each) for each in kept}

    taken_down = cluster.gpucluster("down", "--yes")
    assert taken_down.returncode == 0, taken_down.stderr
    assert cluster.status() is None
    assert nothing_left(cluster.control_plane) == {}
    twice = cluster.gpucluster("down", "--yes")
    assert (twice.returncode, "nothing to delete" in twice.stderr) == (0, True), twice.stderr


def stopped_and_started(cluster: Cluster, head: str) -> None:
    ec2 = cluster.control_plane.client("ec2")
    for verb, state in (("stop", "stopped"), ("start", "running")):
        assert last_line(cluster.gpucluster(verb)) == {"name": NAME, "head": state, "changed": True}
        (found,) = ec2.describe_instances(InstanceIds=[head])["Reservations"]
        assert found["Instances"][0]["State"]["Name"] == state
        assert last_line(cluster.gpucluster(verb))["changed"] is False


def nothing_left(control_plane: Any) -> dict[str, Any]:
    """The cluster's resources that the cloud still has, by kind."""
    ec2, tagged = control_plane.client("ec2"), [{"Name": "tag:gpucluster:cluster", "Values": [NAME]}]
    running = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped", "shutting-down"]}
    named = [{"Name": "tag:Name", "Values": [f"{NAME}*"]}]
    parameters = control_plane.client("ssm").describe_parameters(
        ParameterFilters=[{"Key": "Name", "Option": "BeginsWith", "Values": [f"/gpucluster/{NAME}/"]}]
    )
    zones = control_plane.client("route53").list_hosted_zones()["HostedZones"]
    left = {
        "instances": ec2.describe_instances(Filters=[*tagged, running])["Reservations"],
        "volumes": ec2.describe_volumes(Filters=named)["Volumes"],
        "vpcs": ec2.describe_vpcs(Filters=named)["Vpcs"],
        "groups": ec2.describe_placement_groups()["PlacementGroups"],
        "templates": ec2.describe_launch_templates()["LaunchTemplates"],
        "endpoints": ec2.describe_instance_connect_endpoints()["InstanceConnectEndpoints"],
        "parameters": parameters["Parameters"],
        "zones": [zone for zone in zones if zone["Name"].startswith(NAME.lower())],
        "secrets": control_plane.client("secretsmanager").list_secrets()["SecretList"],
        "roles": [role for role in control_plane.client("iam").list_roles()["Roles"] if NAME in role["RoleName"]],
    }
    return {kind: found for kind, found in left.items() if found}


def test_a_head_that_fails_to_boot_fails_the_deployment_with_its_reason(cluster: Cluster) -> None:
    reason = "step=slurm line=42: cannot find slurmctld (log /var/log/gpucluster/boot.log)"
    with Head(cluster.control_plane, NAME, "FAILURE", reason):
        done = cluster.gpucluster("up")
    assert done.returncode == 3, done.stderr
    error = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert error == f"error: {NAME}: deploy failed: the head node did not boot: {reason}"
    assert "Traceback" not in done.stderr
    assert cluster.status() == "ROLLBACK_COMPLETE"
    unanswered = cluster.gpucluster("down")
    assert (unanswered.returncode, "--yes" in unanswered.stderr) == (2, True), unanswered.stderr
    assert cluster.gpucluster("down", "--yes").returncode == 0
    assert cluster.status() is None
    assert nothing_left(cluster.control_plane) == {}


def test_interrupted_up_says_how_to_go_on_and_goes_on(cluster: Cluster) -> None:
    argv = [sys.executable, "-m", "gpucluster.cli", "-c", str(cluster.file), "up"]
    process = subprocess.Popen(
        argv, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    said = []
    while "waiting for the head node" not in (line := process.stdout.readline()):
        assert line, "".join(said)
        said.append(line)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: the terminal signals the whole group
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 130, rest
    assert "gpucluster up" in rest and "Traceback" not in rest
    with Head(cluster.control_plane, NAME):
        assert last_line(cluster.gpucluster("up"))["outputs"]["HeadInstanceId"]
