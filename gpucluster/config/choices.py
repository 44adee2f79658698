"""Names for the limits that stand in the models as choices (`Literal`) and ranges (`ge`, `le`).

Pydantic holds values to them; this says which validator it was, by key, and where the limit comes from.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucluster.config.document import Path
from gpucluster.config.validators import Validator, register

OUT_OF_LIMITS = (
    "literal_error",
    "greater_than",
    "greater_than_equal",
    "less_than_equal",
    "too_short",
    "union_tag_invalid",
)
"""What Pydantic calls a value of the right type that is not allowed."""

_by_key: dict[str, str] = {}


def choice(name: str, section: str, keys: str, requires: str, source: str) -> None:
    """`keys` are separated by spaces, without indexes: `storage.capacity_gib`."""
    register(Validator(name, "error", section, requires, source))
    belongs(name, keys)


def belongs(name: str, keys: str) -> None:
    """The keys' range is the beginning of what that validator, in `checks`, holds them to."""
    _by_key.update(dict.fromkeys(keys.split(), name))


def name_of(kind: str, path: Path) -> str:
    """The validator of a fault in a choice or range; empty for a fault of another kind."""
    if kind not in OUT_OF_LIMITS:
        return ""
    return _by_key.get(".".join(part for part in path if isinstance(part, str)), "")


def names_by_key() -> Mapping[str, str]:
    return _by_key


choice(
    "efa-mode",
    "EFA",
    "partitions.efa",
    "efa is auto, required or off: the interfaces' type follows from it",
    "AWS::EC2::LaunchTemplate NetworkInterface.InterfaceType: interface, efa or efa-only",
)
choice(
    "scratch-mode",
    "Partitions",
    "partitions.scratch",
    "scratch is auto or off",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/InstanceStorage.html: it goes with its instance",
)
choice(
    "purchase-option",
    "Purchase",
    "partitions.purchase",
    "purchase is on-demand, spot, reservation or capacity-block",
    "AWS::EC2::LaunchTemplate InstanceMarketOptions.MarketType: spot or capacity-block; none is on demand",
)
choice(
    "partition-has-types",
    "Partitions",
    "partitions.instance_types",
    "A partition has an instance type at least",
    "AWS::EC2::LaunchTemplate LaunchTemplateData.InstanceType: error MissingParameter of EC2 RunInstances without it",
)
choice(
    "cluster-has-partitions",
    "Partitions",
    "partitions",
    "A cluster has a partition at least",
    "man slurm.conf.5: PartitionName: slurmctld is fatal where no partition is configured",
)
choice(
    "partition-node-count",
    "Partitions",
    "partitions.max_nodes partitions.min_nodes",
    "max_nodes is 1 at least, min_nodes 0",
    "man slurm.conf.5: NodeName: a range of nodes goes up, from 1",
)
choice(
    "idle-minutes-above-zero",
    "Partitions",
    "partitions.idle_minutes",
    "idle_minutes is more than 0",
    "man slurm.conf.5: SuspendTime: a negative number would switch power saving off",
)
choice(
    "servers-node-count",
    "Parameter servers",
    "parameter_servers.max_nodes parameter_servers.min_nodes",
    "The parameter servers' max_nodes is 1 at least, min_nodes 0",
    "man slurm.conf.5: NodeName: a range of nodes goes up, from 1",
)
choice(
    "internet-mode",
    "Network",
    "network.internet",
    "internet is nat or none",
    "AWS::EC2::NatGateway ConnectivityType: a public gateway is the way out that a new VPC gets, or there is none",
)
choice(
    "fsx-deployment-type",
    "FSx for Lustre",
    "storage.deployment",
    "deployment is scratch-1, scratch-2, persistent-1 or persistent-2",
    "AWS::FSx::FileSystem LustreConfiguration.DeploymentType",
)
choice(
    "storage-type",
    "Mounts",
    "storage.type",
    "type is fsx-lustre, beegfs-ram, head-nfs or efs",
    "AWS::FSx::FileSystem FileSystemType: LUSTRE is the one of its kinds that is made here",
)
choice(
    "fsx-compression",
    "FSx for Lustre",
    "storage.compression",
    "compression is none or lz4",
    "AWS::FSx::FileSystem LustreConfiguration.DataCompressionType",
)
choice(
    "fsx-lifetime",
    "FSx for Lustre",
    "storage.lifetime",
    "lifetime is cluster or jobs: CloudFormation makes the file system, or the head node does",
    "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html",
)
choice(
    "fsx-idle-above-zero",
    "FSx for Lustre",
    "storage.idle_minutes",
    "A file system's idle_minutes is more than 0",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html: it takes minutes to make one",
)
choice(
    "fsx-link-events",
    "FSx for Lustre",
    "storage.data_repositories.import storage.data_repositories.export",
    "import and export list new, changed and deleted",
    "AWS::FSx::DataRepositoryAssociation S3.AutoImportPolicy.Events: NEW, CHANGED and DELETED",
)
choice(
    "storage-on-delete",
    "Mounts",
    "storage.on_delete",
    "on_delete is delete or retain: CloudFormation has snapshots for volumes, and for neither FSx nor EFS",
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html: Snapshot",
)
choice(
    "head-on-delete",
    "Head node",
    "head_node.on_delete",
    "on_delete is delete, snapshot or retain",
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
)
choice(
    "head-volume-size",
    "Head node",
    "head_node.volume_gib",
    "volume_gib is from 10 to 65536: the largest gp3 volume",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html: Size, gp3: 1 - 65,536 GiB",
)
choice(
    "budget-at-limit",
    "Budget",
    "budget.at_limit",
    "at_limit is tell or stop-launches",
    "AWS::Budgets::BudgetsAction ActionType: APPLY_IAM_POLICY is what stops launches",
)
choice(
    "budget-more-than-nothing",
    "Budget",
    "budget.monthly_usd",
    "monthly_usd is more than 0",
    "error InvalidParameterException of Budgets CreateBudget: BudgetLimit",
)
choice(
    "s3-access-kind",
    "S3 access",
    "s3_access.access",
    "access is read or read-write",
    "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html: s3:GetObject, s3:PutObject",
)
choice(
    "beegfs-scope",
    "BeeGFS in memory",
    "storage.scope",
    "scope is cluster or job",
    "https://doc.beegfs.io/latest/advanced_topics/beeond.html: a file system for the time of a job",
)
choice(
    "beegfs-version",
    "BeeGFS in memory",
    "storage.version",
    'version is "7.4" or "8"',
    "https://doc.beegfs.io/latest/release_notes.html: the versions that are maintained",
)
choice(
    "accounting-kind",
    "Accounting",
    "accounting",
    "accounting is local, rds or off",
    "man slurm.conf.5: AccountingStorageType: accounting_storage/slurmdbd, or none",
)

belongs("head-snapshot-count", "head_node.snapshot_days")
belongs("fsx-capacity-step", "storage.capacity_gib")
belongs("fsx-throughput-tier", "storage.throughput_mbps_per_tib")
belongs("fsx-metadata-iops-values", "storage.metadata_iops")
belongs("fsx-backup-days", "storage.backup_days")
belongs("beegfs-fits-memory", "storage.gib_per_node")
belongs("monitoring-log-days", "monitoring.log_days")
