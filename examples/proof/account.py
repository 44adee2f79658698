"""What the account still has of the proof's cluster, asked service by service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpucluster import config
from gpucluster.cluster import aws, stack

TAG = "gpucluster:cluster"
Page = dict[str, Any]
Listed = Callable[[Page], Iterator[str]]
ENDED = ("shutting-down", "terminated")


def _ids(key: str, id_: str) -> Listed:
    return lambda page: (each[id_] for each in page[key])


def _instances(page: Page) -> Iterator[str]:
    found = (each for reservation in page["Reservations"] for each in reservation["Instances"])
    return (each["InstanceId"] for each in found if each["State"]["Name"] not in ENDED)


_TAGGED: dict[str, Listed] = {
    "describe_instances": _instances,
    "describe_volumes": _ids("Volumes", "VolumeId"),
    "describe_snapshots": _ids("Snapshots", "SnapshotId"),
    "describe_network_interfaces": _ids("NetworkInterfaces", "NetworkInterfaceId"),
    "describe_nat_gateways": lambda page: (
        each["NatGatewayId"] for each in page["NatGateways"] if each["State"] not in ("deleting", "deleted")
    ),
    "describe_addresses": _ids("Addresses", "AllocationId"),
    "describe_launch_templates": _ids("LaunchTemplates", "LaunchTemplateId"),
    "describe_placement_groups": _ids("PlacementGroups", "GroupName"),
    "describe_vpcs": _ids("Vpcs", "VpcId"),
}
"""The calls that list all that carries the cluster's tag in EC2."""


def connect(cluster_file: Path) -> aws.Aws:
    """Before `gpucluster down`, which forgets where a local cluster was."""
    return aws.connect(config.load(cluster_file), cluster_file)


def caller(cloud: aws.Aws) -> str:
    """The caller's ARN. Raises boto3's exceptions."""
    return str(cloud.client("sts").get_caller_identity()["Arn"])


def is_there(cloud: aws.Aws) -> bool:
    return any(_stack(cloud, cloud.config.name))


def left(cloud: aws.Aws) -> tuple[list[str], list[str]]:
    """What is left, and which questions AWS did not answer, with the reason."""
    found, unknown = [], []
    for question in (_stack, _of_ec2, _file_systems, _log_groups, _parameters):
        try:
            found += list(question(cloud, cloud.config.name))
        except Exception as error:
            unknown.append(f"{question.__name__.strip('_')}: {error}")
    return found, unknown


def _stack(cloud: aws.Aws, name: str) -> Iterator[str]:
    status = stack.status(cloud.client("cloudformation"), name)
    if status not in (None, "DELETE_COMPLETE"):
        yield f"stack {name}: {status}"


def _of_ec2(cloud: aws.Aws, name: str) -> Iterator[str]:
    ec2 = cloud.client("ec2")
    for operation, listed in _TAGGED.items():
        filters: Page = {"Filters": [{"Name": f"tag:{TAG}", "Values": [name]}]}
        own = {"OwnerIds": ["self"]} if operation == "describe_snapshots" else {}
        yield from (found for page in _pages(ec2, operation, **filters, **own) for found in listed(page))


def _file_systems(cloud: aws.Aws, name: str) -> Iterator[str]:
    if not cloud.config.storage:  # then nobody needs the right to ask FSx
        return
    for page in _pages(cloud.client("fsx"), "describe_file_systems"):
        for system in page["FileSystems"]:
            tags = {tag["Key"]: tag["Value"] for tag in system.get("Tags", [])}
            if tags.get(TAG) == name and system["Lifecycle"] != "DELETING":
                yield str(system["FileSystemId"])


def _log_groups(cloud: aws.Aws, name: str) -> Iterator[str]:
    for page in _pages(cloud.client("logs"), "describe_log_groups", logGroupNamePrefix=f"/gpucluster/{name}/"):
        yield from (f"log group {group['logGroupName']}" for group in page["logGroups"])


def _parameters(cloud: aws.Aws, name: str) -> Iterator[str]:
    for page in _pages(cloud.client("ssm"), "get_parameters_by_path", Path=f"/gpucluster/{name}/", Recursive=True):
        yield from (f"parameter {parameter['Name']}" for parameter in page["Parameters"])


def _pages(client: Any, operation: str, **parameters: Any) -> Iterator[Page]:
    if client.can_paginate(operation):
        yield from client.get_paginator(operation).paginate(**parameters)
    else:
        yield getattr(client, operation)(**parameters)
