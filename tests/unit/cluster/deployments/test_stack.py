"""CloudFormation's list of a stack's resources, and which of them belong to the cluster."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.cluster import stack


def listed(logical_id: str, physical_id: str, status: str) -> dict[str, str]:
    ids = {"LogicalResourceId": logical_id, "PhysicalResourceId": physical_id}
    return {**ids, "ResourceType": "AWS::EC2::Instance", "ResourceStatus": status, "LastUpdatedTimestamp": "2026-01-01"}


@pytest.mark.parametrize(
    ("stack_status", "old_status", "instances"),
    [
        ("UPDATE_COMPLETE", "DELETE_FAILED", ["i-new"]),
        ("UPDATE_COMPLETE", "DELETE_SKIPPED", ["i-new"]),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "DELETE_IN_PROGRESS", ["i-new"]),
        ("UPDATE_ROLLBACK_COMPLETE", "DELETE_COMPLETE", ["i-new"]),
        ("UPDATE_COMPLETE", "UPDATE_COMPLETE", ["i-new", "i-old"]),
        ("DELETE_FAILED", "DELETE_FAILED", ["i-new", "i-old"]),
    ],
)
def test_a_protected_head_that_an_update_could_not_delete_is_no_longer_the_stacks(
    stack_status: str, old_status: str, instances: list[str]
) -> None:
    client = boto3.client("cloudformation", "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    found = {"StackName": "C", "CreationTime": "2026-01-01", "StackStatus": stack_status}
    resources = [listed("Head1", "i-new", "CREATE_COMPLETE"), listed("Head", "i-old", old_status)]
    with Stubber(client) as stub:
        stub.add_response("describe_stacks", {"Stacks": [found]})
        stub.add_response("list_stack_resources", {"StackResourceSummaries": resources})
        assert stack.instance_ids(client, "C") == instances
        stub.assert_no_pending_responses()
