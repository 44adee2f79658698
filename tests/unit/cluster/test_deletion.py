"""What `gpucluster down` says before it asks."""

from __future__ import annotations

import pytest

from gpucluster.cluster.deletion.summary import what_goes, what_goes_and_stays, what_stays
from gpucluster.config import ClusterConfig, loads

SMALL = """
name: Small
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 2}]
"""
FSX = "storage: [{mount: /fsx, type: fsx-lustre}]\n"
FSX_KEPT = "storage: [{mount: /fsx, type: fsx-lustre, on_delete: retain}]\n"
OWN_VPC = (
    "availability_zone: us-east-1a\nnetwork: {vpc_id: vpc-0123456789abcdef0, subnet_id: subnet-0123456789abcdef0}\n"
)


THEIRS = "storage: [{mount: /zfs, type: fsx-openzfs, volume_id: fsvol-0123456789abcdef0}]\n"


def disk(more: str) -> str:
    return f"storage: [{{mount: /disk, type: ebs, {more}}}]\n".replace(", }", "}")


def goes(more: str) -> str:
    return "\n".join(what_goes(config(more), compute_nodes=1))


def stays(more: str) -> str:
    return "\n".join(what_stays(config(more), volumes="vol-1"))


def config(more: str) -> ClusterConfig:
    return loads(SMALL + more)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("", "1 compute node,"),
        ("", "/home, job folders"),
        ("", "logs in CloudWatch"),
        ("", "its network, "),
        (FSX, "/fsx, on fsx-lustre, with all files in it"),
        ("storage: [{mount: /efs, type: efs, on_delete: delete}]\n", "/efs, on efs, with all files in it"),
        (disk(""), "/disk, an EBS volume, after a final snapshot of it"),
        (disk("on_delete: delete"), "/disk, an EBS volume, with all files in it"),
        ("accounting: rds\n", "the accounting database"),
        (FSX_KEPT + OWN_VPC, "its network, "),
    ],
)
def test_deleted_resources_are_named(more: str, named: str) -> None:
    assert named in goes(more)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("", "a final snapshot of the volume vol-1"),
        ("head_node: {on_delete: retain}\n", "the head node's volume vol-1"),
        ("", "Values=vol-1"),
        ("accounting: rds\n", "a final snapshot of the accounting database"),
        ("storage: [{mount: /efs, type: efs}]\n", "/efs, on efs"),
        (FSX_KEPT, "/fsx, on fsx-lustre"),
        (disk("on_delete: retain"), "/disk, an EBS volume (on_delete: retain)"),
        (disk("volume_id: vol-0123456789abcdef0"), "the EBS volume vol-0123456789abcdef0: it is not the cluster's"),
        (THEIRS + OWN_VPC, "/zfs, on fsx-openzfs fsvol-0123456789abcdef0: it is not the cluster's"),
        (FSX_KEPT, "its VPC and one subnet"),
    ],
)
def test_kept_resources_are_named(more: str, named: str) -> None:
    assert named in stays(more)


@pytest.mark.parametrize(
    ("cloud_ends", "start"), [(True, "nothing remains: the local cloud"), (False, "what remains:")]
)
def test_nothing_remains_of_a_local_cloud_that_ends(cloud_ends: bool, start: str) -> None:
    lines = [*what_goes_and_stays(config(""), compute_nodes=1, volumes="vol-1", cloud_ends=cloud_ends)]
    assert [line for line in lines if "remain" in line][0].startswith(start)
    assert any("snapshot" in line or "CDKToolkit" in line for line in lines) is not cloud_ends


@pytest.mark.parametrize(
    ("more", "not_named"),
    [
        ("head_node: {on_delete: retain}\n", "/home"),
        (FSX_KEPT, "/fsx"),
        (FSX_KEPT, "network"),
        ("storage: [{mount: /efs, type: efs}]\n", "/efs"),
    ],
)
def test_kept_resources_are_not_listed_as_deleted(more: str, not_named: str) -> None:
    assert not_named not in goes(more)


@pytest.mark.parametrize(
    ("more", "not_named"),
    [
        ("head_node: {on_delete: delete, snapshot_days: 0}\n", "vol-1"),
        ("head_node: {on_delete: delete}\naccounting: rds\n", "accounting"),
        (FSX, "/fsx"),
        (FSX_KEPT + OWN_VPC, "VPC"),
    ],
)
def test_deleted_resources_are_not_listed_as_kept(more: str, not_named: str) -> None:
    assert not_named not in stays(more)
