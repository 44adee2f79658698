"""Rules about `accounting: rds`: where a database instance can be created."""

from __future__ import annotations

from ipaddress import IPv4Network

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.regions import partition_of
from gpucluster.config.validators import Findings, Validators

validator = Validators("Accounting")

SUBNETS = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_VPC.WorkingWithRDSInstanceinaVPC.html"
AUTHORITIES = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.SSL.html: certificate bundles"

SMALLEST_VPC = 25


@validator("rds-needs-new-vpc", f"{SUBNETS}: at least two zones; error DBSubnetGroupDoesNotCoverEnoughAZs")
def rds_needs_new_vpc(config: ClusterConfig) -> Findings:
    """accounting: rds needs a new VPC: a database needs subnets in two zones, and subnet_id names one subnet."""
    if config.accounting == "rds" and config.network.vpc_id:
        yield Finding(
            ("accounting",),
            "'rds' needs subnets in two zones, but network.vpc_id is used with one subnet",
            "write accounting: local, which needs no more subnets",
        )


@validator(
    "rds-vpc-size",
    "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html: /28 at least; "
    "error InvalidSubnet.Conflict of EC2 CreateSubnet",
)
def rds_vpc_size(config: ClusterConfig) -> Findings:
    """With accounting: rds vpc_cidr is /25 or larger: the VPC needs two more subnets."""
    size = IPv4Network(config.network.vpc_cidr).prefixlen
    if config.accounting == "rds" and config.network.vpc_id is None and size > SMALLEST_VPC:
        yield Finding(
            ("network", "vpc_cidr"),
            f"must be /{SMALLEST_VPC} or larger with accounting: rds, got /{size}",
            "the database's two subnets do not fit beside the others",
        )


@validator("rds-certificates-reachable", AUTHORITIES)
def rds_certificates_reachable(config: ClusterConfig) -> Findings:
    """With accounting: rds and a published image, the head node can fetch RDS's certificates from the internet."""
    image = config.head_node.image or config.software.image
    if config.accounting == "rds" and config.network.internet == "none" and not image.startswith("ami-"):
        yield Finding(
            ("accounting",),
            "'rds' needs RDS's certificates from truststore.pki.rds.amazonaws.com, which no VPC endpoint reaches",
            "write internet: nat, or name an image with the certificates in /etc/slurm/rds-ca.pem",
        )


@validator("rds-partition", f"{AUTHORITIES} by partition")
def rds_partition(config: ClusterConfig) -> Findings:
    """accounting: rds works in AWS's commercial regions: elsewhere RDS's certificates are at other addresses."""
    if config.accounting == "rds" and partition_of(config.region) != "aws":
        yield Finding(
            ("accounting",), f"'rds' is not supported in {partition_of(config.region)}", "write accounting: local"
        )
