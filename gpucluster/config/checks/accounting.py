"""Rules about `accounting: rds`: where a database instance can be made."""

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
    """accounting: rds goes with a new VPC: a database wants subnets in two zones, and the file names one of a VPC."""
    if config.accounting == "rds" and config.network.vpc_id:
        yield Finding(
            ("accounting",),
            "'rds' needs subnets in two zones, and network.vpc_id comes with one subnet",
            "accounting: local needs none",
        )


@validator(
    "rds-vpc-size",
    "https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html: /28 at least; "
    "error InvalidSubnet.Conflict of EC2 CreateSubnet",
)
def rds_vpc_size(config: ClusterConfig) -> Findings:
    """With accounting: rds vpc_cidr is /25 or larger: two more subnets stand beside the public one."""
    size = IPv4Network(config.network.vpc_cidr).prefixlen
    if config.accounting == "rds" and config.network.vpc_id is None and size > SMALLEST_VPC:
        yield Finding(
            ("network", "vpc_cidr"),
            f"must be /{SMALLEST_VPC} or larger with accounting: rds, got /{size}",
            "the database's two subnets have no room beside the others",
        )


@validator("rds-certificates-reachable", AUTHORITIES)
def rds_certificates_reachable(config: ClusterConfig) -> Findings:
    """With accounting: rds and a published image, the head node can fetch RDS's certificates from the internet."""
    image = config.head_node.image or config.software.image
    if config.accounting == "rds" and config.network.internet == "none" and not image.startswith("ami-"):
        yield Finding(
            ("accounting",),
            "'rds' needs RDS's certificates from truststore.pki.rds.amazonaws.com, to which no endpoint leads",
            "write internet: nat, or name an image that has them in /etc/slurm/rds-ca.pem",
        )


@validator("rds-partition", f"{AUTHORITIES} by partition")
def rds_partition(config: ClusterConfig) -> Findings:
    """accounting: rds is in AWS's commercial regions: elsewhere RDS's certificates are at other addresses."""
    if config.accounting == "rds" and partition_of(config.region) != "aws":
        yield Finding(
            ("accounting",), f"'rds' is not built for {partition_of(config.region)}", "accounting: local is, everywhere"
        )
