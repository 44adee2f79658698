"""Rules about `internet: none`: what a cluster without internet access cannot do."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Network
from gpucluster.config.nodes import HeadNode, Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Without internet")

MIRRORS = "https://documentation.ubuntu.com/server/how-to/software/package-management/: apt downloads from archives"
PACKAGES_HINT = "name an AMI with Slurm: image: ami-…; `gpucluster image build` builds one"
OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eusc-")

CROSS_REGION = "https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-cross-region-privatelink-support.html"
GATEWAY_ENDPOINTS = "https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html"
INTERFACE_ENDPOINTS = "https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html"


@validator("internet-none-head-image", MIRRORS)
def internet_none_head_image(head: HeadNode, path: Path, config: ClusterConfig) -> Findings:
    """Without internet the head node's image has Slurm in it: nothing can be installed at boot."""
    if head.image is not None:
        yield from _needs_baked(config, head.image, (*path, "image"), "the head node")
    else:
        yield from _needs_baked(config, config.software.image, _place(config), "the head node")


@validator("internet-none-partition-image", MIRRORS)
def internet_none_partition_image(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """Without internet a partition's own image has Slurm in it."""
    if partition.image is not None:
        yield from _needs_baked(config, partition.image, (*path, "image"), "its nodes")


@validator("internet-none-software-image", MIRRORS)
def internet_none_software_image(config: ClusterConfig) -> Findings:
    """Without internet software.image, from which nodes without an image of their own boot, has Slurm in it."""
    users = [f"the nodes of {partition.name}" for partition in config.every_partition if partition.image is None]
    if users:
        yield from _needs_baked(config, config.software.image, _place(config), users[0])


def _place(config: ClusterConfig) -> Path:
    """The image, and its path in the file."""
    return ("software", "image") if "image" in config.software.model_fields_set else ("network", "internet")


def _needs_baked(config: ClusterConfig, image: str, path: Path, who: str) -> Findings:
    if config.network.internet == "none" and image.startswith("dlami-"):
        yield Finding(
            path, f"{image} has no Slurm: {who} could not install it with network.internet: none", PACKAGES_HINT
        )


@validator("internet-none-needs-route53", f"{CROSS_REGION}: com.amazonaws.route53 is in the commercial regions")
def internet_none_needs_route53(network: Network, path: Path, config: ClusterConfig) -> Findings:
    """internet: none works in AWS's commercial regions: elsewhere Route 53 has no VPC endpoint."""
    if network.internet == "none" and config.region.startswith(OTHER_PARTITIONS):
        yield Finding(
            (*path, "internet"),
            f"with 'none' nodes in {config.region} cannot reach Route 53, which holds their names",
            "write internet: nat",
        )


@validator(
    "internet-none-environments",
    f"{GATEWAY_ENDPOINTS}: without a NAT device a private subnet reaches S3, and no package index; "
    "https://pip.pypa.io/en/stable/cli/pip_install/: --index-url, default https://pypi.org/simple",
    level="warning",
)
def internet_none_environments(config: ClusterConfig) -> Findings:
    """Without internet the frameworks' environments come from software.cache: nodes reach no package index."""
    software = config.software
    if config.network.internet == "none" and software.frameworks and software.cache is None:
        yield Finding(
            ("network", "internet"),
            f"with 'none' nodes reach no package index, so they cannot install {' and '.join(software.frameworks)}",
            "set software.cache and build them once in a cluster with internet (`gpucluster env build`), "
            "or use an image with all wheels in /opt/wheels",
        )
