"""Rules about the cluster as a whole against the limits of Slurm and CloudFormation.

The estimate of the template's size is an upper bound. A test compares it with a synthesized template.
"""

from __future__ import annotations

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig, Partition
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType, efa_layout

validator = Validators("Limits")

SLURM_NODES = 65_536

STACK_RESOURCES = 500
TEMPLATE_BYTES = 1_000_000

# Everything except partitions: the largest example's count, plus a tenth.
OTHER_RESOURCES = 130
OTHER_BYTES = 110_000
# A partition has a placement group, a parameter, and a launch template with the interfaces for each type.
PARTITION_RESOURCES = 2
PARTITION_BYTES = 900
LAUNCH_TEMPLATE_BYTES = 4_600
INTERFACE_BYTES = 220

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
    """The cluster's template has at most 500 resources: two for each partition, one for each type in it."""
    resources = estimated_resources(config)
    if resources > STACK_RESOURCES:
        yield Finding(
            ("partitions",),
            f"make about {resources} resources; a CloudFormation template has {STACK_RESOURCES} at most",
            "fewer partitions, or fewer types in each, or a second cluster",
        )


@validator("template-size", f"{CLOUDFORMATION}: 1 MB for a template in S3")
def template_size(config: ClusterConfig) -> Findings:
    """The cluster's template has at most 1 MB: types with many EFA interfaces have large launch templates."""
    size = estimated_bytes(config)
    if size > TEMPLATE_BYTES:
        yield Finding(
            ("partitions",),
            f"make a template of about {size // 1000} KB; CloudFormation takes {TEMPLATE_BYTES // 1000}",
            "fewer partitions, or fewer types in each, or a second cluster",
        )


def estimated_resources(config: ClusterConfig) -> int:
    """At most so many."""
    each = [PARTITION_RESOURCES + len(partition.instance_types) for partition in config.partitions]
    return OTHER_RESOURCES + sum(each)


def estimated_bytes(config: ClusterConfig) -> int:
    """At most so many."""
    return OTHER_BYTES + sum(map(_partition_bytes, config.partitions))


def _partition_bytes(partition: Partition) -> int:
    types = [INSTANCE_TYPES[name] for name in partition.instance_types if name in INSTANCE_TYPES]
    templates = [LAUNCH_TEMPLATE_BYTES + INTERFACE_BYTES * interfaces(type_, partition.efa) for type_ in types]
    return PARTITION_BYTES + sum(templates)
