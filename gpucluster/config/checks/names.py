"""Rules about the names of the cluster and of partitions, from AWS, DNS and Slurm."""

from __future__ import annotations

from gpucluster.config.construct_ids import pascal
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import PARAMETER_SERVERS, Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Names")

RESERVED = {
    PARAMETER_SERVERS: "the partition of the parameter servers",
    "head": "the head node's host name",
    "all": "Slurm's word for every node",
    "default": "Slurm's word for the settings of all partitions",
    "localhost": "every machine's own name",
}

EC2_DOMAINS = ("ec2", "compute")
"""EC2 names instances in ec2.internal (us-east-1) and <region>.compute.internal (elsewhere)."""

LOGICAL_IDS = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/resources-section-structure.html"


@validator(
    "cluster-name-not-bootstrap",
    "https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping.html: CDKToolkit is the bootstrap stack",
)
def cluster_name_not_bootstrap(config: ClusterConfig) -> Findings:
    """The cluster is not called CDKToolkit: that stack holds what `cdk deploy` itself needs."""
    if config.name == "CDKToolkit":
        yield Finding(("name",), "CDKToolkit is the stack that every deployment needs: it would be replaced")


@validator(
    "cluster-name-not-ec2-domain",
    "https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html: private DNS hostnames",
)
def cluster_name_not_ec2_domain(config: ClusterConfig) -> Findings:
    """The cluster's zone, <name>.internal, is not the domain in which EC2 names instances."""
    if config.name.lower() in EC2_DOMAINS:
        hint = "choose another name"
        yield Finding(("name",), f"{config.zone} is EC2's own domain: EC2's names would no longer resolve", hint)


@validator("partition-name-unique", "man slurm.conf.5: a second record of a PartitionName is ignored")
def partition_name_unique(config: ClusterConfig) -> Findings:
    """Each partition has its own name."""
    first: dict[str, int] = {}
    for index, name in _partition_names(config):
        if name in first:
            yield Finding(("partitions", index, "name"), f"{name!r} is already the name of partitions[{first[name]}]")
        else:
            first[name] = index


@validator("partition-name-distinct", f"{LOGICAL_IDS}: logical ids are alphanumeric and unique")
def partition_name_distinct(config: ClusterConfig) -> Findings:
    """Partitions' names differ in more than hyphens: IDs in the template have none."""
    first: dict[str, str] = {}
    for index, name in _partition_names(config):
        other = first.setdefault(pascal(name), name)
        if other != name:
            yield Finding(
                ("partitions", index, "name"), f"{name!r} and {other!r} differ only in hyphens: their IDs collide"
            )


def _partition_names(config: ClusterConfig) -> list[tuple[int, str]]:
    """Partitions whose name was not refused."""
    named = ((index, partition.__dict__.get("name")) for index, partition in enumerate(config.partitions))
    return [(index, name) for index, name in named if name is not None]


@validator("partition-name-free", "man slurm.conf.5: NodeName and PartitionName: DEFAULT and ALL are reserved words")
def partition_name_free(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition is not called all, default, localhost, head or ps: those names are reserved."""
    if partition.name in RESERVED:
        what = RESERVED[partition.name]
        yield Finding((*path, "name"), f"{partition.name!r} is reserved: it is {what}", "choose another, such as train")
