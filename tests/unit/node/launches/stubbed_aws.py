"""A cluster, and the answers that botocore's Stubber gives to its launches."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.stub import ANY, Stubber
from gpucluster_node import fleet
from gpucluster_node.power import groups, journal, launch, resume

CLUSTER = fleet.parse(
    {
        "cluster": "c",
        "zone": "c.internal",
        "ssm_path": "/gpucluster/c/",
        "partitions": [
            {"name": name, "min_nodes": 0, "max_nodes": 4, "purchase": "on-demand"} for name in ("train", "ps")
        ],
    }
)
TYPES = [
    {"instance_type": "p4d.24xlarge", "launch_template_id": "lt-1", "version": 3},
    {"instance_type": "p4de.24xlarge", "launch_template_id": "lt-2", "version": "1"},
]
GROUP = groups.Group("train", ("train-1", "train-2"), 7)
SINGLES = groups.Group("train", ("train-1", "train-2", "train-3", "train-4"))
LAUNCHED = datetime(2026, 11, 21, tzinfo=UTC)
ICE = (
    "InsufficientInstanceCapacity",
    "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested (us-east-1a). "
    "Our system will be working on provisioning additional capacity. You can currently get p4d.24xlarge capacity by "
    "not specifying an Availability Zone in your request or choosing us-east-1b.",
)
"""Worded as in hashicorp/terraform-provider-aws#1496."""
QUOTA = (
    "VcpuLimitExceeded",
    "You have requested more vCPU capacity than your current vCPU limit of 192 allows for the instance bucket that the "
    "specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
    "adjustment to this limit.",
)
"""Worded as in xlang-ai/OSWorld#366."""
FULL = (
    "ReservationCapacityExceeded",
    "The requested reservation does not have sufficient compatible and available capacity for this request.",
)
"""As in hashicorp/terraform-provider-aws#35745."""
OTHER_ZONE = (
    "Unsupported",
    "Your requested instance type (p4d.24xlarge) is not supported in your requested Availability Zone (us-east-1e). "
    "Please retry your request by not specifying an Availability Zone or choosing us-east-1a, us-east-1b.",
)
"""Worded as in ned1313/Getting-Started-Terraform#44."""
UNAVAILABLE = ("Unavailable", "The server is overloaded and can't handle the request.")
"""The description in the table of server errors of EC2's API reference."""
DENIED = (
    "UnauthorizedOperation",
    "You are not authorized to perform this operation. Encoded authorization failure message: " + "Vv" * 900,
)
"""Worded as in EC2's user guide, "Work with EC2 Fleet"; the encoded part is ours."""
NOT_FOUND = "InvalidInstanceID.NotFound"
LIVE = ("pending", "running", "stopping", "stopped")
Stubs = Callable[[str], Stubber]


def parameter(stubs: Stubs, name: str, value: Any) -> None:
    answer = {"Parameter": {"Value": json.dumps(value)}}
    stubs("ssm").add_response("get_parameter", answer, {"Name": f"/gpucluster/c/{name}"})


def run_instances(template: str, version: str, count: int, least: int = 0) -> dict[str, Any]:
    launch_template = {"LaunchTemplateId": template, "Version": version}
    return {"LaunchTemplate": launch_template, "MinCount": least or count, "MaxCount": count, "ClientToken": ANY}


def instance(number: int, **tags: str) -> dict[str, Any]:
    return {
        "InstanceId": f"i-{number}",
        "State": {"Name": "pending"},
        "PrivateIpAddress": f"10.0.0.{number}",
        "LaunchTime": LAUNCHED,
        "AmiLaunchIndex": number - 1,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def expect_names(stubs: Stubs, value: str, *numbers: int) -> None:
    tags = [{"Key": "gpucluster:node", "Value": value}]
    stubs("ec2").add_response("create_tags", {}, {"Resources": [f"i-{each}" for each in numbers], "Tags": tags})


def expect_records(stubs: Stubs, action: str, records: dict[str, str]) -> None:
    changes = [
        {
            "Action": action,
            "ResourceRecordSet": {"Name": name, "Type": "A", "TTL": 10, "ResourceRecords": [{"Value": ip}]},
        }
        for name, ip in records.items()
    ]
    answer = {"ChangeInfo": {"Id": "x", "Status": "PENDING", "SubmittedAt": LAUNCHED}}
    given = {"HostedZoneId": "Z1", "ChangeBatch": {"Changes": changes}}
    stubs("route53").add_response("change_resource_record_sets", answer, given)


def expect_describe(stubs: Stubs, *instances: dict[str, Any], states: tuple[str, ...] = LIVE) -> None:
    filters = [
        {"Name": "tag:gpucluster:cluster", "Values": ["c"]},
        {"Name": "tag:gpucluster:role", "Values": ["compute"]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    answer = {"Reservations": [{"Instances": [each]} for each in instances]}
    stubs("ec2").add_response("describe_instances", answer, {"Filters": filters, "MaxResults": 1000})


def record(name: str, ip: str, kind: str = "A") -> dict[str, Any]:
    return {"Name": name, "Type": kind, "TTL": 10, "ResourceRecords": [{"Value": ip}]}


def expect_listing(stubs: Stubs, *records: dict[str, Any]) -> None:
    answer = {"ResourceRecordSets": list(records), "IsTruncated": False, "MaxItems": "300"}
    stubs("route53").add_response("list_resource_record_sets", answer, {"HostedZoneId": "Z1"})


def refusing_parameters(stubs: Stubs) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES[:1], "subnet_id": "subnet-1"})


def resumed(group: groups.Group, folder: Path, sleep: Callable[[float], None] = lambda seconds: None) -> None:
    """sleep: seconds pass only there."""
    now = [0.0]

    def slept(seconds: float) -> None:
        now[0] += seconds
        sleep(seconds)

    book = journal.Journal(folder)
    record = book.open(group.nodes)
    launcher = launch.Launcher(
        CLUSTER, "1", lambda: resume.client("ec2"), clock=lambda: now[0], sleep=slept, waits=record.waits
    )
    resume.Resume(CLUSTER, launcher, record).run([group])
    assert book.nodes() == frozenset()
    record.close()
