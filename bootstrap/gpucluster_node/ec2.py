"""Instances of this cluster: requests as plain dictionaries, and the calls that send them."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

from gpucluster_node import names
from gpucluster_node.aws import AWS_ERRORS, error_code, error_message, is_unserved
from gpucluster_node.batches import batches
from gpucluster_node.fleet import Fleet, LaunchTemplate
from gpucluster_node.rates import TokenBucket, pause_s

log = logging.getLogger("ec2")
CLUSTER_TAG = "gpucluster:cluster"
ROLE_TAG = "gpucluster:role"
FAILURE_TAG = "gpucluster:boot-failure"
LABEL_TAG = "Name"
TEMPLATE_TAGS = ("aws:ec2launchtemplate:id", "aws:ec2launchtemplate:version")
"""EC2 sets these itself."""
LIVE_STATES = ("pending", "running", "stopping", "stopped")
ENDING_STATES = ("shutting-down",)
ENDED_STATES = ("shutting-down", "terminated")
"""EC2 lists those for about an hour."""
PAGE_SIZE = 1000
"""The most that DescribeInstances returns; without a limit it may time out on large fleets."""
TERMINATE_BATCH = 500
BLOCK = "capacity-block"
"""InstanceLifecycle of an instance in a Capacity Block."""
TAG_CALLS = TokenBucket(90, 9)
"""Most of the 100 calls at once, and 10 more a second, that EC2 allows an account in a region (EC2's guide,
ec2-api-throttling); nodes whose boot fails tag themselves."""
TAG_ATTEMPTS = 10
"""EC2 may not know an instance yet that it has just launched. 22 s in all: nodes wait five minutes for their name."""
_UNKNOWN = "InvalidInstanceID.NotFound"
_NOT_YET = (_UNKNOWN, "UnauthorizedOperation")
"""NotFound may come even after DescribeInstances knew the instance (aws/aws-sdk-ruby#1198). The head node may tag
instances with its cluster's tags, and IAM may see those later than the instance: one of them late refuses the call for
all."""
UNSERVED_S = 200.0
"""How long a call is repeated that EC2 does not serve. Otherwise the instances would be terminated, and EC2 may have no
capacity for others."""


@dataclass(frozen=True)
class Instance:
    instance_id: str
    state: str
    private_ip: str | None
    launch_time: datetime
    node: str | None
    boot_failure: str | None
    template: tuple[str, str] | None = None
    """Id and version of its launch template."""
    instance_type: str = ""
    ended_by: str = ""
    """EC2's code and message for its termination, such as `Client.InternalError: Client error on launch`."""
    launch_index: int = 0
    """Its place among the instances of its launch."""
    label: str = ""
    """Its name in EC2's console."""
    capacity_block: str = ""
    """Id of the reservation, if it runs in a Capacity Block."""
    token: str = ""
    """The ClientToken of its launch (EC2's API reference, Instance)."""


def run_request(template: LaunchTemplate, least: int, most: int, token: str) -> dict[str, Any]:
    """EC2 launches as many as it can, or none if that is fewer than `least`. Everything else is in the template, in
    this deployment's version."""
    return {
        "LaunchTemplate": {"LaunchTemplateId": template.launch_template_id, "Version": template.version},
        "MinCount": least,
        "MaxCount": most,
        "ClientToken": token,
    }


def client_token(attempt: str, nodes: Sequence[str], template: LaunchTemplate) -> str:
    """One per attempt, group and template: a repeated call must not launch twice, a new attempt must."""
    text = "\n".join((attempt, *nodes, template.launch_template_id, template.version))
    return sha256(text.encode()).hexdigest()[:64]


def tag_request(instance_ids: Sequence[str], tags: Mapping[str, str]) -> dict[str, Any]:
    return {"Resources": list(instance_ids), "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def describe_request(fleet: Fleet, states: Sequence[str] = LIVE_STATES, role: str = "compute") -> dict[str, Any]:
    """This cluster's instances that are not terminated."""
    filters = {
        f"tag:{CLUSTER_TAG}": [fleet.cluster],
        f"tag:{ROLE_TAG}": [role],
        "instance-state-name": list(states),
    }
    return {"Filters": [{"Name": name, "Values": values} for name, values in filters.items()]}


def launch(ec2: Any, template: LaunchTemplate, least: int, most: int, token: str) -> list[Instance]:
    response = ec2.run_instances(**run_request(template, least, most, token))
    return sorted(map(_instance, response["Instances"]), key=lambda each: each.launch_index)


def tag(ec2: Any, request: dict[str, Any]) -> None:
    """For instances that were just launched. request: of `tag_request`."""

    def call() -> None:
        TAG_CALLS.take()
        ec2.create_tags(**request)

    patiently(call)


def patiently(call: Callable[[], None]) -> None:
    """For calls right after an instance's launch."""
    until = time.monotonic() + UNSERVED_S
    for attempt in itertools.count(1):
        try:
            call()
            return
        except AWS_ERRORS as error:
            is_unknown = error_code(error) in _NOT_YET and attempt < TAG_ATTEMPTS
            if not is_unknown and not (is_unserved(error) and time.monotonic() < until):
                raise
        time.sleep(attempt / 2 if is_unknown else pause_s(attempt))


def describe(ec2: Any, fleet: Fleet, nodes: Sequence[str] = (), states: Sequence[str] = LIVE_STATES) -> list[Instance]:
    """The instances of the named nodes, or of all. EC2 cannot filter by a node: instances share a tag's value."""
    wanted = frozenset(nodes)
    return [each for each in _described(ec2, describe_request(fleet, states)) if not wanted or each.node in wanted]


def _described(ec2: Any, request: dict[str, Any]) -> Iterator[Instance]:
    pages = ec2.get_paginator("describe_instances").paginate(**request, PaginationConfig={"PageSize": PAGE_SIZE})
    for page in pages:
        yield from (_instance(each) for reservation in page["Reservations"] for each in reservation["Instances"])


def terminate(ec2: Any, instance_ids: Iterable[str]) -> None:
    for batch in batches(instance_ids, TERMINATE_BATCH):
        _terminate(ec2, batch)


def _terminate(ec2: Any, instance_ids: list[str]) -> None:
    """EC2 rejects a whole call if it does not know one of the ids. Its error names them."""
    try:
        ec2.terminate_instances(InstanceIds=instance_ids)
    except ClientError as error:
        known = [each for each in instance_ids if each not in unknown_ids(error)]
        if len(known) == len(instance_ids):
            raise
        log.warning("%s", error_message(error))
        if known:
            _terminate(ec2, known)


def unknown_ids(error: Exception) -> frozenset[str]:
    """The instances that EC2 does not know, if that is the error."""
    return frozenset(re.findall(r"\bi-[0-9a-f]+", error_message(error)) if error_code(error) == _UNKNOWN else ())


def _instance(data: dict[str, Any]) -> Instance:
    tags, launch_index = dict(_tags(data)), data.get("AmiLaunchIndex", 0)
    return Instance(
        instance_id=data["InstanceId"],
        state=data["State"]["Name"],
        private_ip=data.get("PrivateIpAddress"),
        launch_time=data["LaunchTime"],
        node=names.node_of(tags.get(names.TAG, ""), launch_index),
        boot_failure=tags.get(FAILURE_TAG),
        launch_index=launch_index,
        label=tags.get(LABEL_TAG, ""),
        instance_type=data.get("InstanceType", ""),
        ended_by=data.get("StateReason", {}).get("Message", ""),
        token=data.get("ClientToken", ""),
        capacity_block=data.get("CapacityReservationId", "") if data.get("InstanceLifecycle") == BLOCK else "",
        template=(tags[TEMPLATE_TAGS[0]], tags[TEMPLATE_TAGS[1]]) if tags.keys() >= set(TEMPLATE_TAGS) else None,
    )


def _tags(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return ((tag["Key"], tag["Value"]) for tag in data.get("Tags", ()))
