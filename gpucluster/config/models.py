"""cluster.yaml as frozen models: one class per section, one field per key, the units in the names.

A field checks its own value; what several fields must satisfy together is in `checks`. `examples/reference.yaml`
explains each key, and a test holds that file and these models together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag, WrapValidator, field_validator

from gpucluster.config.document import Document, Finding
from gpucluster.config.fields import (
    Amount,
    ClusterName,
    Count,
    DirectoryPath,
    EmailAddress,
    ExportTarget,
    FillSource,
    Image,
    InstanceTypeName,
    KmsKeyArn,
    MountPoint,
    PartitionName,
    PlacementGroup,
    PolicyArn,
    RegionName,
    ReservationId,
    S3Uri,
    ServersPlacementGroup,
    SourceNetwork,
    SubnetId,
    VpcId,
    VpcNetwork,
    Whole,
)
from gpucluster.errors import Notice, UsageError
from gpucluster.instances import INSTANCE_TYPES, InstanceType

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

    from gpucluster.config.checks.silence import Outcome

PARAMETER_SERVERS = "ps"
"""The partition of the parameter servers; no other may have its name."""


class NotValidated(Exception):
    """A check asked for a value that was refused already: it has nothing to say."""


class Refused:
    """Stands where the user's value was refused, so that the rest of the file can still be checked (see `load`)."""


REFUSED = Refused()


def pass_refused(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return value if value is REFUSED else handler(value)


class Section(BaseModel):
    # defer_build: a section's validator is built within ClusterConfig's; building each alone too doubles the import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    _let_through = field_validator("*", mode="wrap")(pass_refused)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in type(self).model_fields:
                raise NotValidated(name)
            return super().__getattr__(name)


def _or_blank(section: type[Section]) -> WrapValidator:
    """A refused entry of a list keeps its place: as a section of which no key was validated."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if value is not REFUSED:
            return handler(value)
        blank = section.model_construct()
        blank.__dict__.clear()
        return blank

    return WrapValidator(validate)


class Network(Section):
    vpc_cidr: VpcNetwork = "10.0.0.0/16"
    vpc_id: VpcId | None = None
    subnet_id: SubnetId | None = None
    ssh_from: tuple[SourceNetwork, ...] = ()
    internet: Literal["nat", "none"] = "nat"


OnDelete = Literal["delete", "retain"]


class HeadNode(Section):
    instance_type: InstanceTypeName = "m6i.2xlarge"
    volume_gib: Annotated[int, Field(strict=True, ge=10, le=65536)] = 200
    image: Image | None = None
    on_delete: Literal["delete", "snapshot", "retain"] = "snapshot"
    snapshot_days: Whole = 7
    termination_protection: bool = False


class Partition(Section):
    name: PartitionName
    instance_types: Annotated[tuple[Annotated[InstanceTypeName, WrapValidator(pass_refused)], ...], Field(min_length=1)]
    image: Image | None = None
    min_nodes: Whole = 0
    max_nodes: Count
    purchase: Literal["on-demand", "spot", "reservation", "capacity-block"] = "on-demand"
    reservation_id: ReservationId | None = None
    placement_group: PlacementGroup = "cluster"
    efa: Literal["auto", "required", "off"] = "auto"
    scratch: Literal["auto", "off"] = "auto"
    idle_minutes: Amount = 10.0


class ParameterServers(Section):
    instance_type: InstanceTypeName = "m4.16xlarge"
    min_nodes: Whole = 0
    max_nodes: Count = 16
    placement_group: ServersPlacementGroup = "shared"


class DataRepository(Section):
    path: DirectoryPath
    s3: S3Uri
    import_: tuple[Literal["new", "changed", "deleted"], ...] = Field(default=(), alias="import")
    export: tuple[Literal["new", "changed", "deleted"], ...] = ()


class FsxLustre(Section):
    mount: MountPoint
    type: Literal["fsx-lustre"]
    deployment: Literal["scratch-1", "scratch-2", "persistent-1", "persistent-2"] = "persistent-2"
    capacity_gib: Count = 4800
    throughput_mbps_per_tib: Count | None = None
    compression: Literal["none", "lz4"] = "none"
    efa: bool = False
    metadata_iops: Count | None = None
    backup_days: Whole = 0
    on_delete: OnDelete = "delete"
    lifetime: Literal["cluster", "jobs"] = "cluster"
    idle_minutes: Amount = 10.0
    data_repositories: tuple[DataRepository, ...] = ()


class BeegfsRam(Section):
    mount: MountPoint
    type: Literal["beegfs-ram"]
    partition: str
    gib_per_node: Count
    scope: Literal["cluster", "job"] = "cluster"
    version: Literal["7.4", "8"] = "8"
    source: FillSource | None = None
    export: ExportTarget | None = None


class HeadNfs(Section):
    mount: MountPoint
    type: Literal["head-nfs"]


HOME_ON_HEAD = HeadNfs.model_construct(mount="/home", type="head-nfs")


class Efs(Section):
    mount: MountPoint
    type: Literal["efs"]
    on_delete: OnDelete = "retain"


def _storage_type(entry: Any) -> Any:
    return entry.get("type") if isinstance(entry, dict) else getattr(entry, "type", None)


Storage = Annotated[
    Annotated[FsxLustre, Tag("fsx-lustre")]
    | Annotated[BeegfsRam, Tag("beegfs-ram")]
    | Annotated[HeadNfs, Tag("head-nfs")]
    | Annotated[Efs, Tag("efs")],
    Discriminator(_storage_type),
    _or_blank(Efs),
]

Framework = Literal["torch", "horovod", "smddp", "mxnet", "tensorflow"]


class Software(Section):
    image: Image = "dlami-ubuntu-24.04"
    frameworks: tuple[Framework, ...] = ("torch", "horovod")
    cache: S3Uri | None = None
    containers: bool = False


class S3Access(Section):
    uri: S3Uri
    access: Literal["read", "read-write"] = "read"


class Monitoring(Section):
    log_days: Count = 90
    dashboard: bool = True
    alarm_email: EmailAddress | None = None


class Budget(Section):
    monthly_usd: Amount
    email: EmailAddress | None = None
    at_limit: Literal["tell", "stop-launches"] = "tell"


class Security(Section):
    kms_key_arn: KmsKeyArn | None = None
    permissions_boundary_arn: PolicyArn | None = None


class ClusterConfig(Section):
    name: ClusterName
    region: RegionName
    availability_zone: str | None = None
    network: Network = Network.model_construct()
    head_node: HeadNode = HeadNode.model_construct()
    partitions: Annotated[tuple[Annotated[Partition, _or_blank(Partition)], ...], Field(min_length=1)]
    parameter_servers: ParameterServers | None = None
    storage: tuple[Storage, ...] = (HOME_ON_HEAD,)
    s3_access: tuple[Annotated[S3Access, _or_blank(S3Access)], ...] = ()
    software: Software = Software.model_construct()
    accounting: Literal["local", "rds", "off"] = "local"
    monitoring: Monitoring = Monitoring.model_construct()
    budget: Budget | None = None
    security: Security = Security.model_construct()
    silence: tuple[str, ...] = ()

    _document: Document = PrivateAttr(default_factory=Document)

    @property
    def zone(self) -> str:
        """The cluster's private DNS zone: nodes are `<node>.<zone>`."""
        return f"{self.name.lower()}.internal"

    @property
    def ssm_path(self) -> str:
        """Where its SSM parameters lie; ends in a slash."""
        return f"/gpucluster/{self.name}/"

    @property
    def home(self) -> Storage:
        """What holds /home: the head node's NFS unless `storage` says otherwise."""
        at_home = (storage for storage in self.storage if storage.mount == "/home")
        return next(at_home, HOME_ON_HEAD)

    @property
    def lustre_with_jobs(self) -> tuple[FsxLustre, ...]:
        """The file systems that the head node makes when a job needs them, and deletes when none does."""
        return tuple(each for each in self.storage if isinstance(each, FsxLustre) and each.lifetime == "jobs")

    @property
    def volume_mount(self) -> str:
        """Where the head node's data volume is mounted."""
        return "/home" if self.home.type == "head-nfs" else "/srv/gpucluster"

    @property
    def state_folder(self) -> str:
        """On that volume: Slurm's state and its accounts."""
        return "/home/gpucluster" if self.home.type == "head-nfs" else self.volume_mount

    @property
    def max_nodes(self) -> dict[str, int]:
        """Of each partition, by name; the parameter servers' is among them."""
        found = {partition.name: partition.max_nodes for partition in self.partitions}
        return found | ({PARAMETER_SERVERS: self.parameter_servers.max_nodes} if self.parameter_servers else {})

    @property
    def max_nodes_together(self) -> int:
        """Not from `max_nodes`: what counts nodes holds for partitions of refused or equal names too."""
        servers = self.parameter_servers.max_nodes if self.parameter_servers else 0
        return sum(partition.max_nodes for partition in self.partitions) + servers

    def partition(self, name: str) -> Partition:
        """Raises UsageError."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        known = ", ".join(partition.name for partition in self.partitions)
        raise UsageError(f"no partition {name!r} in the cluster {self.name}", f"its partitions: {known}")

    def instance_types(self, partition: Partition | str) -> tuple[InstanceType, ...]:
        """In order of preference; `ps` names the parameter servers."""
        if partition == PARAMETER_SERVERS and self.parameter_servers:
            return (INSTANCE_TYPES[self.parameter_servers.instance_type],)
        named = self.partition(partition) if isinstance(partition, str) else partition
        return tuple(INSTANCE_TYPES[name] for name in named.instance_types)

    def gpus_per_node(self, partition: Partition | str) -> int:
        """The same for every type that the partition may get."""
        return self.instance_types(partition)[0].gpus

    def notice(self, finding: Finding) -> Notice:
        """With the place in the file that it was read from."""
        return self._document.notice(finding)

    def not_built(self) -> list[Notice]:
        """What the file asks for and this version does not build yet: `validate` and `up` warn of it."""
        from gpucluster.config.not_built import not_built

        return [self.notice(finding) for finding in not_built(self)]

    def warnings(self) -> list[Notice]:
        """What is allowed and still worth a word; without `not_built`."""
        return [self.notice(finding) for finding in self._checked().findings if finding.level == "warning"]

    def silenced(self) -> list[Notice]:
        """What validators said that `silence` names."""
        return [self.notice(finding) for finding in self._checked().silenced]

    def _checked(self) -> Outcome:
        from gpucluster.config.checks import check

        return check(self)
