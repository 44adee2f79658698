"""What the account still has of the proof's cluster, asked service by service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpucluster import aws, config, stack

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
"""Of EC2, all that carries the cluster's tag."""


def connect(cluster_file: Path) -> aws.Aws:
    """Before `gpucluster down`, which forgets where a local cluster was."""
    return aws.connect(config.load(cluster_file), cluster_file)


def left(cloud: aws.Aws) -> list[str]:
    """Empty: nothing. Raises what boto3 raises where AWS does not answer."""
    name = cloud.config.name
    return [*_stack(cloud, name), *_of_ec2(cloud, name), *_others(cloud, name)]


def _stack(cloud: aws.Aws, name: str) -> Iterator[str]:
    status = stack.status(cloud.client("cloudformation"), name)
    if status not in (None, "DELETE_COMPLETE"):
        yield f"stack {name}: {status}"


def _of_ec2(cloud: aws.Aws, name: str) -> Iterator[str]:
    ec2 = cloud.client("ec2")
    for operation, listed in _TAGGED.items():
        filters = {"Filters": [{"Name": f"tag:{TAG}", "Values": [name]}]}
        paged = ec2.can_paginate(operation)
        pages = ec2.get_paginator(operation).paginate(**filters) if paged else [getattr(ec2, operation)(**filters)]
        yield from (found for page in pages for found in listed(page))


def _others(cloud: aws.Aws, name: str) -> Iterator[str]:
    for system in cloud.client("fsx").describe_file_systems()["FileSystems"]:
        tags = {tag["Key"]: tag["Value"] for tag in system.get("Tags", [])}
        if tags.get(TAG) == name and system["Lifecycle"] != "DELETING":
            yield str(system["FileSystemId"])
    groups = cloud.client("logs").describe_log_groups(logGroupNamePrefix=f"/gpucluster/{name}/")["logGroups"]
    yield from (f"log group {group['logGroupName']}" for group in groups)
    path = f"/gpucluster/{name}/"
    parameters = cloud.client("ssm").get_parameters_by_path(Path=path, Recursive=True)["Parameters"]
    yield from (f"parameter {parameter['Name']}" for parameter in parameters)
