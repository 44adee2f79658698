"""`down` of a large cluster: no call names more instances or records than AWS takes."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from gpucluster.cluster.deletion import every_node

COUNT = 1200
NODES = [{"InstanceId": f"i-{number:017x}", "State": {"Name": "running"}} for number in range(COUNT)]
HEAD = {"InstanceId": "i-fffffffffffffffff", "State": {"Name": "running"}}
ZONE = "Z0123456789"


def client(service: str) -> Any:
    return boto3.client(service, "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")


def found(stub: Stubber, *instances: dict[str, Any]) -> None:
    stub.add_response("describe_instances", {"Reservations": [{"Instances": list(instances)}]}, {"Filters": ANY})


def test_instances_are_terminated_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_node, "POLL_S", 0.0)
    ec2 = client("ec2")
    with Stubber(ec2) as stub:
        found(stub, *NODES)
        found(stub, HEAD)
        every = [HEAD["InstanceId"], *(each["InstanceId"] for each in NODES)]
        for start in (0, 500, 1000):
            stub.add_response("terminate_instances", {}, {"InstanceIds": every[start : start + 500]})
        found(stub, NODES[0])
        found(stub)
        every_node.end(ec2, "Big", lambda line: None, head_too=False)
        stub.assert_no_pending_responses()


def test_records_are_deleted_in_batches() -> None:
    records = [
        {"Name": f"node-{number}.big.internal.", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "10.0.0.1"}]}
        for number in range(COUNT)
    ]
    cloudformation, route53 = client("cloudformation"), client("route53")
    zone = {
        "ResourceType": "AWS::Route53::HostedZone", "LogicalResourceId": "Zone", "PhysicalResourceId": ZONE,
        "ResourceStatus": "CREATE_COMPLETE", "LastUpdatedTimestamp": 0,
    }  # fmt: skip
    info = {"Id": "/change/C1", "Status": "PENDING", "SubmittedAt": 0}
    with Stubber(cloudformation) as stacks, Stubber(route53) as zones:
        stacks.add_response("list_stack_resources", {"StackResourceSummaries": [zone]}, {"StackName": "Big"})
        listed = {"ResourceRecordSets": records, "IsTruncated": False, "MaxItems": "100"}
        zones.add_response("list_resource_record_sets", listed, {"HostedZoneId": ZONE})
        for start in (0, 500, 1000):
            changes = [{"Action": "DELETE", "ResourceRecordSet": each} for each in records[start : start + 500]]
            zones.add_response(
                "change_resource_record_sets",
                {"ChangeInfo": info},
                {"HostedZoneId": ZONE, "ChangeBatch": {"Changes": changes}},
            )
        every_node.remove_records(cloudformation, route53, "Big")
        zones.assert_no_pending_responses()
