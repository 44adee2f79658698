"""Rules about `accounting: rds`: where a database instance can be made, and how long it is kept."""

from __future__ import annotations

from ipaddress import IPv4Network

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.regions import partition_of
from gpucluster.config.validators import Findings, validator

ACCOUNTING = "Accounting"

SUBNETS = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_VPC.WorkingWithRDSInstanceinaVPC.html"
AUTHORITIES = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.SSL.html: certificate bundles"
BACKUPS = "https://docs.aws.amazon.com/AmazonRDS/latest/APIReference/API_CreateDBInstance.html: BackupRetentionPeriod"

SMALLEST_VPC = 25
BACKUP_DAYS = 35


@validator(
    "rds-needs-new-vpc",
    section=ACCOUNTING,
    each=ClusterConfig,
    source=f"{SUBNETS}: at least two zones; error DBSubnetGroupDoesNotCoverEnoughAZs",
)
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
    section=ACCOUNTING,
    each=ClusterConfig,
    source="https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html: /28 at least; "
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


@validator("rds-certificates-reachable", section=ACCOUNTING, each=ClusterConfig, source=AUTHORITIES)
def rds_certificates_reachable(config: ClusterConfig) -> Findings:
    """With accounting: rds and a published image, the head node can fetch RDS's certificates from the internet."""
    if _closed(config) and not _head_image(config).startswith("ami-"):
        yield Finding(
            ("accounting",),
            "'rds' needs RDS's certificates from truststore.pki.rds.amazonaws.com, to which no endpoint leads",
            "write internet: nat, or name an image that has them in /etc/slurm/rds-ca.pem",
        )


@validator("rds-certificates-in-image", section=ACCOUNTING, each=ClusterConfig, level="warning", source=AUTHORITIES)
def rds_certificates_in_image(config: ClusterConfig) -> Findings:
    """With accounting: rds and internet: none the image has RDS's certificates in /etc/slurm/rds-ca.pem."""
    if _closed(config) and _head_image(config).startswith("ami-"):
        yield Finding(
            ("accounting",),
            f"{_head_image(config)} must have RDS's certificates in /etc/slurm/rds-ca.pem: the head cannot fetch them",
            "truststore.pki.rds.amazonaws.com has them",
        )


@validator("rds-partition", section=ACCOUNTING, each=ClusterConfig, source=f"{AUTHORITIES} by partition")
def rds_partition(config: ClusterConfig) -> Findings:
    """accounting: rds is in AWS's commercial regions: elsewhere RDS's certificates are at other addresses."""
    if config.accounting == "rds" and partition_of(config.region) != "aws":
        yield Finding(
            ("accounting",), f"'rds' is not built for {partition_of(config.region)}", "accounting: local is, everywhere"
        )


@validator("rds-backup-days", section=ACCOUNTING, each=ClusterConfig, level="warning", source=f"{BACKUPS}, 0 to 35")
def rds_backup_days(config: ClusterConfig) -> Findings:
    """With accounting: rds snapshot_days is at most 35: RDS keeps its backups no longer."""
    if config.accounting == "rds" and config.head_node.snapshot_days > BACKUP_DAYS:
        yield Finding(
            ("head_node", "snapshot_days"),
            f"the database's backups stay {BACKUP_DAYS} days, the volume's {config.head_node.snapshot_days}",
        )


@validator(
    "rds-is-not-retained",
    section=ACCOUNTING,
    each=ClusterConfig,
    level="warning",
    source="error DependencyViolation of EC2 DeleteSubnet: an instance that stays holds its subnets and the VPC",
)
def rds_is_not_retained(config: ClusterConfig) -> Findings:
    """With accounting: rds on_delete is delete or snapshot: the database cannot stay when its subnets go."""
    if config.accounting == "rds" and config.head_node.on_delete == "retain":
        yield Finding(
            ("head_node", "on_delete"),
            "retain keeps the volume; of the database a snapshot is made",
            "restore it from there: aws rds restore-db-instance-from-db-snapshot",
        )


def _closed(config: ClusterConfig) -> bool:
    return config.accounting == "rds" and config.network.internet == "none"


def _head_image(config: ClusterConfig) -> str:
    return config.head_node.image or config.software.image
