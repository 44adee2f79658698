"""Rules about the cluster as a whole against the limits of Slurm and CloudFormation.

The estimates of the template's resources and size are upper bounds. A test compares them with synthesized templates.
"""

from __future__ import annotations

import json
from typing import Any

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.storage import (
    DataRepository,
    Ebs,
    Efs,
    ExistingEfs,
    ExistingLustre,
    FsxLustre,
    Mount,
    Ontap,
    OpenZfs,
)
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType, efa_layout

validator = Validators("Limits")

SLURM_NODES = 65_536

STACK_RESOURCES = 500
TEMPLATE_BYTES = 1_000_000

# Everything except partitions and further file systems: the largest example's count, plus a tenth.
OTHER_RESOURCES = 130
OTHER_BYTES = 110_000
# A partition has a placement group, a parameter, and a launch template with the interfaces for each type.
PARTITION_RESOURCES = 2
PARTITION_BYTES = 900
LAUNCH_TEMPLATE_BYTES = 4_600
INTERFACE_BYTES = 220
TAGGED_BY_TEMPLATE = 4
"""Its instances, their volumes and interfaces, and itself."""
# A file system has security groups with their rules, mount targets or alarms, and a parameter.
MOUNTS: dict[type[Mount], tuple[int, int]] = {
    FsxLustre: (21, 15_200),
    Efs: (6, 5_000),
    Ebs: (2, 1_900),
    ExistingLustre: (1, 700),
    ExistingEfs: (1, 700),
    OpenZfs: (1, 700),
    Ontap: (1, 700),
}
"""Resources and bytes. Other kinds make none of their own, or may be there only once."""
REPOSITORY_RESOURCES = 1
REPOSITORY_BYTES = 700

CLOUDFORMATION = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"


def interfaces(instance_type: InstanceType, efa: str) -> int:
    return len(efa_layout(instance_type, "off" if efa == "off" else "efa-only"))


@validator("cluster-node-count", "man slurm.conf.5: MaxNodeCount: a system has at most 65536 nodes")
def cluster_node_count(config: ClusterConfig) -> Findings:
    """All partitions together have at most 65,536 nodes."""
    nodes = config.max_nodes
    if nodes > SLURM_NODES:
        yield Finding(
            ("partitions",), f"may have {nodes} nodes together; Slurm allows {SLURM_NODES}", "lower max_nodes"
        )


@validator("template-resources", f"{CLOUDFORMATION}: 500 resources in a template")
def template_resources(config: ClusterConfig) -> Findings:
    """The cluster's template has at most 500 resources: two for each partition, one for each type in it, and up to 29
    for each file system."""
    shares = _resources(config)
    resources = OTHER_RESOURCES + sum(shares.values())
    if resources > STACK_RESOURCES:
        yield _too_large(
            shares, f"make about {resources} resources; a CloudFormation template has {STACK_RESOURCES} at most"
        )


@validator("template-size", f"{CLOUDFORMATION}: 1 MB for a template in S3")
def template_size(config: ClusterConfig) -> Findings:
    """The cluster's template has at most 1 MB: types with many EFA interfaces have large launch templates, each
    resource has a copy of `tags`, and the template has one of the cluster file, with the users' public keys."""
    shares = _bytes(config)
    size = OTHER_BYTES + sum(shares.values())
    if size > TEMPLATE_BYTES:
        yield _too_large(
            shares, f"make a template of about {size // 1000} KB; CloudFormation takes {TEMPLATE_BYTES // 1000}"
        )


_SMALLER = {
    "partitions": "fewer partitions, or fewer types in each, or a second cluster",
    "storage": "fewer file systems, or a second cluster",
    "tags": "fewer or shorter tags: each launch template has them four times, or fewer types in partitions",
    "users": "shorter keys: an ssh-ed25519 key has 80 characters, an RSA key of 4096 bits 720; or fewer users",
}


def _too_large(shares: dict[str, int], message: str) -> Finding:
    """At the key that takes most."""
    key = max(shares, key=lambda each: shares[each])
    return Finding((key,), message, _SMALLER.get(key, "shorten it"))


def estimated_resources(config: ClusterConfig) -> int:
    """At most so many."""
    return OTHER_RESOURCES + sum(_resources(config).values())


def estimated_bytes(config: ClusterConfig) -> int:
    """At most so many."""
    return OTHER_BYTES + sum(_bytes(config).values())


def _resources(config: ClusterConfig) -> dict[str, int]:
    """By the key that makes them."""
    partitions = (PARTITION_RESOURCES + len(each.instance_types) for each in config.partitions)
    repositories = REPOSITORY_RESOURCES * len(_repositories(config))
    return {
        "partitions": sum(partitions),
        "storage": repositories + sum(MOUNTS.get(type(each), (0, 0))[0] for each in config.storage),
    }


def _bytes(config: ClusterConfig) -> dict[str, int]:
    """By the key that makes them: its copy in the template, and its resources."""
    made = {
        "partitions": sum(map(_partition_bytes, config.partitions)),
        "storage": REPOSITORY_BYTES * len(_repositories(config))
        + sum(MOUNTS.get(type(each), (0, 0))[1] for each in config.storage),
        "tags": _tags_bytes(config),
    }
    return {key: size + made.get(key, 0) for key, size in _recorded(config).items()}


def _tags_bytes(config: ClusterConfig) -> int:
    """Those of all resources."""
    one = sum(len(json.dumps({"Key": key, "Value": value}).encode()) for key, value in config.tags.items())
    templates = sum(len(each.instance_types) for each in config.partitions)
    return one * (estimated_resources(config) + (TAGGED_BY_TEMPLATE - 1) * templates)


def _recorded(config: ClusterConfig) -> dict[str, int]:
    """The bytes of each key in the template's metadata (gpucluster/updates/record.py): JSON in a string."""
    values: dict[str, Any] = config.model_dump(mode="json", by_alias=True, warnings=False, fallback=str)
    return {key: len(json.dumps(json.dumps({key: value}, separators=(",", ":")))) for key, value in values.items()}


def _repositories(config: ClusterConfig) -> list[DataRepository]:
    return [each for mount in config.storage if isinstance(mount, FsxLustre) for each in mount.data_repositories]


def _partition_bytes(partition: Partition) -> int:
    types = [INSTANCE_TYPES[name] for name in partition.instance_types if name in INSTANCE_TYPES]
    templates = [LAUNCH_TEMPLATE_BYTES + INTERFACE_BYTES * interfaces(type_, partition.efa) for type_ in types]
    return PARTITION_BYTES + sum(templates)
