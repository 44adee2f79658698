"""The endpoint that an existing VPC already has: found, pinned for the synthesis, and forgotten when it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from synthesis import ACCOUNT, lookups

from gpucluster import config
from gpucluster.cluster import cdk, doors
from gpucluster.config import ClusterConfig

NETWORK = {"vpc_id": "vpc-11111111", "subnet_id": "subnet-11111111"}
CLUSTER = {
    "name": "Mine",
    "region": "us-east-1",
    "availability_zone": "us-east-1a",
    "network": NETWORK,
    "partitions": [{"name": "train", "instance_types": ["g5.xlarge"], "max_nodes": 2}],
}
THERE = {
    "InstanceConnectEndpointId": "eice-11111111",
    "VpcId": "vpc-11111111",
    "State": "create-complete",
    "SecurityGroupIds": ["sg-11111111"],
}


class Account:
    def __init__(self, *endpoints: dict[str, Any]) -> None:
        self.endpoints = endpoints

    def ask(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        if service == "sts":
            return {"Account": ACCOUNT}
        assert parameters == {"Filters": [{"Name": "vpc-id", "Values": ["vpc-11111111"]}]}
        return {"InstanceConnectEndpoints": list(self.endpoints)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(json.dumps(CLUSTER))
    (tmp_path / "cdk.context.json").write_text('{"other": 1}')
    return path


def synthesized(cluster: ClusterConfig) -> dict[str, Any]:
    from stacks.cluster import GpuCluster
    from stacks.cluster import cdk as aws_cdk

    with TemporaryDirectory() as folder:
        app = aws_cdk.App(context=lookups("us-east-1"), outdir=folder)
        GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
        app.synth()
        template: dict[str, Any] = json.loads(Path(folder, "Mine.template.json").read_text())
    return template


def endpoints(template: dict[str, Any]) -> list[str]:
    return [each["Type"] for each in template["Resources"].values() if "InstanceConnectEndpoint" in each["Type"]]


def test_the_vpcs_endpoint_is_pinned_and_used_until_it_is_gone(file: Path) -> None:
    cluster = config.load(file)
    assert doors.follow(file, cluster, Account(THERE)) == ("eice-11111111", "sg-11111111")
    template = synthesized(cluster)
    assert endpoints(template) == []
    assert template["Outputs"]["InstanceConnectEndpointId"]["Value"] == "eice-11111111"
    rules = [each["Properties"] for each in template["Resources"].values() if "Ingress" in each["Type"]]
    assert sum(each.get("SourceSecurityGroupId") == "sg-11111111" for each in rules) == 2
    assert doors.follow(file, cluster, Account()) is None
    assert cdk.pinned(cdk.context_beside(file)) == {"other": 1}
    assert len(endpoints(synthesized(cluster))) == 1


@pytest.mark.parametrize(
    ("network", "endpoint"),
    [
        (NETWORK, {**THERE, "Tags": [{"Key": "gpucluster:cluster", "Value": "Mine"}]}),
        (NETWORK, {**THERE, "State": "delete-complete"}),
        ({**NETWORK, "connect_endpoint_id": "eice-22222222", "connect_security_group_id": "sg-22222222"}, THERE),
        ({}, THERE),
    ],
    ids=["its own", "deleted", "the file names one", "a new VPC"],
)
def test_no_other_endpoint_is_used(file: Path, network: dict[str, str], endpoint: dict[str, Any]) -> None:
    file.write_text(json.dumps({**CLUSTER, "network": network}))
    assert doors.follow(file, config.load(file), Account(endpoint)) is None
    assert cdk.pinned(cdk.context_beside(file)) == {"other": 1}
