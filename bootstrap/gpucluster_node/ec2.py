"""Instances of this cluster: requests as plain dictionaries, and the calls that send them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from gpucluster_node.aws import error_code
from gpucluster_node.batches import batches
from gpucluster_node.fleet import Fleet, LaunchTemplate

CLUSTER_TAG = "gpucluster:cluster"
ROLE_TAG = "gpucluster:role"
NODE_TAG = "gpucluster:node"
FAILURE_TAG = "gpucluster:boot-failure"
TEMPLATE_TAGS = ("aws:ec2launchtemplate:id", "aws:ec2launchtemplate:version")
"""EC2 sets them itself."""
LIVE_STATES = ("pending", "running", "stopping", "stopped")
TERMINATE_BATCH = 500
TAG_ATTEMPTS = 10
"""EC2 may not know an instance yet that it has just launched. 22 s in all: nodes wait five minutes for their name."""


@dataclass(frozen=True)
class Instance:
    instance_id: str
    state: str
    private_ip: str | None
    launch_time: datetime
    node: str | None
    boot_failure: str | None
    template: tuple[str, str] | None = None
    """Id and version of the launch template that it was launched from."""


def run_request(template: LaunchTemplate, count: int, token: str) -> dict[str, Any]:
    """All of them or none. The template says everything else, at the version that this deployment made."""
    return {
        "LaunchTemplate": {"LaunchTemplateId": template.launch_template_id, "Version": template.version},
        "MinCount": count,
        "MaxCount": count,
        "ClientToken": token,
    }


def client_token(attempt: str, nodes: Sequence[str], template: LaunchTemplate) -> str:
    """One per attempt, group and template: a repeated call must not launch twice, a new attempt must."""
    text = "\n".join((attempt, *nodes, template.launch_template_id, template.version))
    return sha256(text.encode()).hexdigest()[:64]


def tag_request(fleet: Fleet, instance_id: str, node: str) -> dict[str, Any]:
    tags = {"Name": f"{fleet.cluster}-{node}", NODE_TAG: node}
    return {"Resources": [instance_id], "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def describe_request(fleet: Fleet, nodes: Sequence[str] = ()) -> dict[str, Any]:
    """This cluster's compute instances that are not ended; of those nodes only, where any are named."""
    filters = {
        f"tag:{CLUSTER_TAG}": [fleet.cluster],
        f"tag:{ROLE_TAG}": ["compute"],
        "instance-state-name": list(LIVE_STATES),
    }
    if nodes:
        filters[f"tag:{NODE_TAG}"] = list(nodes)
    return {"Filters": [{"Name": name, "Values": values} for name, values in filters.items()]}


def launch(ec2: Any, template: LaunchTemplate, count: int, token: str) -> list[Instance]:
    response = ec2.run_instances(**run_request(template, count, token))
    return [_instance(each) for each in sorted(response["Instances"], key=lambda each: each.get("AmiLaunchIndex", 0))]


def tag(ec2: Any, request: dict[str, Any]) -> None:
    """request: of `tag_request`."""
    for attempt in range(1, TAG_ATTEMPTS + 1):
        try:
            ec2.create_tags(**request)
            return
        except ClientError as error:
            if error_code(error) != "InvalidInstanceID.NotFound" or attempt == TAG_ATTEMPTS:
                raise
        time.sleep(attempt / 2)


def describe(ec2: Any, fleet: Fleet, nodes: Sequence[str] = ()) -> list[Instance]:
    pages = ec2.get_paginator("describe_instances").paginate(**describe_request(fleet, nodes))
    return [
        _instance(each) for page in pages for reservation in page["Reservations"] for each in reservation["Instances"]
    ]


def terminate(ec2: Any, instance_ids: Iterable[str]) -> None:
    for batch in batches(instance_ids, TERMINATE_BATCH):
        ec2.terminate_instances(InstanceIds=list(batch))


def _instance(data: dict[str, Any]) -> Instance:
    tags = dict(_tags(data))
    return Instance(
        instance_id=data["InstanceId"],
        state=data["State"]["Name"],
        private_ip=data.get("PrivateIpAddress"),
        launch_time=data["LaunchTime"],
        node=tags.get(NODE_TAG),
        boot_failure=tags.get(FAILURE_TAG),
        template=(tags[TEMPLATE_TAGS[0]], tags[TEMPLATE_TAGS[1]]) if tags.keys() >= set(TEMPLATE_TAGS) else None,
    )


def _tags(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return ((tag["Key"], tag["Value"]) for tag in data.get("Tags", ()))
