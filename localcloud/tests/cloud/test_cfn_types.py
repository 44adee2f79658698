"""One stack with every resource type, through the CloudFormation API of a running control plane."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Protocol

from localcloud.cloudformation.resources import supported_types
from localcloud.testing import patience
from localcloud.testing.census import census

TEMPLATE = Path(__file__).parent / "templates" / "every_type.yaml"
REFUSED = """
  Refused:
    Type: AWS::EC2::Subnet
    DependsOn: [Alarm, Group, Disk, Associated]
    Properties: {VpcId: !Ref Vpc, CidrBlock: 9.0.0.0/24}
"""


class ControlPlane(Protocol):
    endpoint_url: str

    def client(self, service: str) -> Any: ...


def _settle(cloudformation: Any, stack_id: str) -> dict[str, Any]:
    deadline = patience.seconds() + 120
    while patience.seconds() < deadline:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            return stack
        time.sleep(0.3)
    raise TimeoutError(f"stack is {stack['StackStatus']} after 120 s")


def _failures(cloudformation: Any, stack_id: str) -> list[tuple[str, str, str]]:
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
    return [
        (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
        for page in pages
        for event in page["StackEvents"]
        if event["ResourceStatus"].endswith("_FAILED")
    ]


def _update(cloudformation: Any, body: str, number: int) -> None:
    cloudformation.update_stack(
        StackName="Every",
        TemplateBody=body,
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "Round", "ParameterValue": str(number)}],
    )


def _properties(cloudformation: Any, stack_id: str) -> dict[str, str]:
    resources = cloudformation.list_stack_resources(StackName=stack_id)["StackResourceSummaries"]
    return {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in resources}


def _tagged(control_plane: ControlPlane, ids: dict[str, str]) -> dict[str, str]:
    """The tags that the log group, the alarm and the file system all have."""
    logs, cloudwatch, efs = map(control_plane.client, ("logs", "cloudwatch", "efs"))
    of_logs = logs.list_tags_log_group(logGroupName=ids["Logs"])["tags"]
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[ids["Alarm"]])["MetricAlarms"]
    lists = (
        cloudwatch.list_tags_for_resource(ResourceARN=alarm["AlarmArn"])["Tags"],
        efs.list_tags_for_resource(ResourceId=ids["Files"])["Tags"],
    )
    found = [of_logs, *({tag["Key"]: tag["Value"] for tag in each} for each in lists)]
    assert found[0] == found[1] == found[2], found
    return dict(found[0])


def test_the_template_has_every_type() -> None:
    written = set(re.findall(r"Type: (AWS::\w+::\w+)", TEMPLATE.read_text()))
    assert set(supported_types()) == written


def test_every_type_is_created_updated_rolled_back_and_deleted(control_plane: ControlPlane) -> None:
    before = census(control_plane.client)
    cloudformation = control_plane.client("cloudformation")
    body = TEMPLATE.read_text()
    stack_id = cloudformation.create_stack(
        StackName="Every", TemplateBody=body, Capabilities=["CAPABILITY_NAMED_IAM"], OnFailure="DO_NOTHING"
    )["StackId"]
    created = _settle(cloudformation, stack_id)
    assert created["StackStatus"] == "CREATE_COMPLETE", _failures(cloudformation, stack_id)
    assert {output["OutputKey"]: output["OutputValue"] for output in created["Outputs"]}["User"] == "me"
    ids = _properties(cloudformation, stack_id)
    ec2 = control_plane.client("ec2")
    instance = ec2.describe_instances(InstanceIds=[ids["Instance"]])["Reservations"][0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (instance["InstanceType"], tags["a"], tags["Name"]) == ("m6i.large", "b", "every-1")
    (group,) = ec2.describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"]
    # CloudFormation removes 0.0.0.0/0 if a rule is a separate resource, even if the template contains it.
    assert [rule["UserIdGroupPairs"][0]["GroupId"] for rule in group["IpPermissionsEgress"]] == [ids["Group"]]

    _update(cloudformation, body.replace("\nOutputs:", f"{REFUSED}Outputs:"), 2)
    refused = _settle(cloudformation, stack_id)
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE", _failures(cloudformation, stack_id)
    assert control_plane.client("ssm").get_parameter(Name="/every/type")["Parameter"]["Value"] == "1"

    _update(cloudformation, body, 2)
    updated = _settle(cloudformation, stack_id)
    assert updated["StackStatus"] == "UPDATE_COMPLETE", _failures(cloudformation, stack_id)
    now = _properties(cloudformation, stack_id)
    assert {name for name in ids if ids[name] != now[name]} == {"FollowsTemplate", "Associated", "SelfOut", "Together"}
    assert _tagged(control_plane, now) == {"round": "2"}

    cloudformation.delete_stack(StackName="Every")
    deleted = _settle(cloudformation, stack_id)
    assert deleted["StackStatus"] == "DELETE_COMPLETE", _failures(cloudformation, stack_id)
    assert census(control_plane.client) == before
    snapshots = ec2.describe_snapshots(Filters=[{"Name": "volume-id", "Values": [ids["Disk"]]}])["Snapshots"]
    assert len(snapshots) == 1
