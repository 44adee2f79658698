"""cluster.yaml as frozen models: one class per section, one field per key, the units in the names.

A field checks its own value; rules across fields are in `checks`. `examples/reference.yaml` explains each key, and a
test compares that file with these models.
"""

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field, PrivateAttr

from gpucluster import addresses
from gpucluster.config.document import Document, Finding, Path
from gpucluster.config.fields import (
    Amount,
    ClusterName,
    Count,
    DirectName,
    EmailAddress,
    Image,
    ProxyUrl,
    RegionName,
    S3Uri,
    SourceNetwork,
    VpcNetwork,
)
from gpucluster.config.identifiers import (
    ConnectEndpointId,
    KmsKeyArn,
    ManagedPolicyArn,
    PolicyArn,
    RolePrefix,
    ScraperGroupId,
    SecurityGroupId,
    SubnetId,
    VpcId,
)
from gpucluster.config.limits import Limit
from gpucluster.config.nodes import HeadNode, ParameterServers, Partition
from gpucluster.config.sagemaker import SageMaker
from gpucluster.config.section import Section, Separate, or_blank
from gpucluster.config.slurm import Slurm
from gpucluster.config.storage import HOME_ON_HEAD, BeegfsRam, FsxLustre, Mount, Storage
from gpucluster.config.tags import Tags
from gpucluster.config.users import User
from gpucluster.errors import Notice

JOB_CREDENTIALS_URL = "http://127.0.0.1:9911/credentials"
"""The URL at which every node serves the credentials of the jobs' role. gpucluster_node/aws.py has the same URL."""
Kind = TypeVar("Kind", bound=Mount)


class Network(Section):
    heading: ClassVar[str] = "Network"

    vpc_cidr: VpcNetwork = "10.0.0.0/16"
    vpc_id: VpcId | None = None
    subnet_id: SubnetId | None = None
    connect_endpoint_id: ConnectEndpointId | None = None
    connect_security_group_id: SecurityGroupId | None = None
    ssh_from: tuple[SourceNetwork, ...] = ()
    internet: Annotated[
        Literal["nat", "none"], Limit("internet-mode", "AWS::EC2::NatGateway ConnectivityType: public")
    ] = "nat"
    proxy: ProxyUrl | None = None
    no_proxy: tuple[DirectName, ...] = ()


Framework = Literal["torch", "horovod", "smddp", "mxnet", "tensorflow"]


class Software(Section):
    image: Image = "dlami-ubuntu-24.04"
    frameworks: tuple[Framework, ...] = ("torch", "horovod")
    cache: S3Uri | None = None
    containers: bool = False


Access = Literal["read", "read-write"]


class S3Access(Section):
    heading: ClassVar[str] = "S3 access"

    uri: S3Uri
    access: Annotated[
        Access,
        Limit(
            "s3-access-kind", "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html"
        ),
    ] = "read"

    def covers(self, uri: str) -> bool:
        """Whether it names the address, or a prefix of it."""
        return addresses.S3Uri.of(self.uri).holds(addresses.S3Uri.of(uri))


class Monitoring(Section):
    heading: ClassVar[str] = "Monitoring"

    log_days: Annotated[Count, Limit("monitoring-log-days")] = 90
    dashboard: bool = True
    alarm_email: EmailAddress | None = None
    prometheus: Annotated[
        Literal["on", "off"],
        Limit("monitoring-prometheus", "https://prometheus.io/docs/prometheus/2.45/storage/"),
    ] = "on"
    retention_days: Annotated[
        Count,
        Limit("monitoring-retention-days", "https://prometheus.io/docs/prometheus/2.45/storage/: whole days"),
    ] = 15
    scrape_from: ScraperGroupId | None = None

    @property
    def exports(self) -> bool:
        """Whether nodes serve their samples: to this cluster's Prometheus, or to the one of `scrape_from`."""
        return self.prometheus == "on" or self.scrape_from is not None


class Budget(Section):
    heading: ClassVar[str] = "Budget"

    monthly_usd: Annotated[
        Amount,
        Limit("budget-more-than-nothing", "error InvalidParameterException of Budgets CreateBudget: BudgetLimit"),
    ]
    email: EmailAddress | None = None
    at_limit: Annotated[
        Literal["notify", "stop-launches", "stop-nodes"],
        Limit("budget-at-limit", "AWS::Budgets::BudgetsAction ActionType: APPLY_IAM_POLICY"),
    ] = "notify"

    @property
    def stops_launches(self) -> bool:
        return self.at_limit != "notify"


class Policies(Section):
    head: tuple[ManagedPolicyArn, ...] = ()
    nodes: tuple[ManagedPolicyArn, ...] = ()
    jobs: tuple[ManagedPolicyArn, ...] = ()


class Security(Section):
    kms_key_arn: KmsKeyArn | None = None
    permissions_boundary_arn: PolicyArn | None = None
    policies: Policies = Policies.model_construct()
    role_prefix: RolePrefix | None = None


class ClusterConfig(Section):
    heading: ClassVar[str] = "Cluster"

    name: ClusterName
    region: RegionName
    availability_zone: str | None = None
    tags: Tags = {}
    network: Annotated[Network, Separate()] = Network.model_construct()
    head_node: HeadNode = HeadNode.model_construct()
    partitions: Annotated[
        tuple[Annotated[Partition, or_blank(Partition)], ...],
        Field(min_length=1),
        Limit("cluster-has-partitions", "man slurm.conf.5: PartitionName: slurmctld needs one", "Partitions"),
    ]
    parameter_servers: Annotated[ParameterServers, Separate()] | None = None
    storage: tuple[Storage, ...] = (HOME_ON_HEAD,)
    s3_access: tuple[Annotated[S3Access, Separate(), or_blank(S3Access)], ...] = ()
    software: Annotated[Software, Separate()] = Software.model_construct()
    slurm: Annotated[Slurm, Separate()] = Slurm.model_construct()
    accounting: Annotated[
        Literal["local", "rds", "off"],
        Limit("accounting-kind", "man slurm.conf.5: AccountingStorageType", "Accounting"),
    ] = "local"
    users: tuple[Annotated[User, Separate(), or_blank(User)], ...] = ()
    monitoring: Annotated[Monitoring, Separate()] = Monitoring.model_construct()
    budget: Annotated[Budget, Separate()] | None = None
    sagemaker: Annotated[SageMaker, Separate()] | None = None
    security: Annotated[Security, Separate()] = Security.model_construct()
    silence: tuple[str, ...] = ()

    _document: Document = PrivateAttr(default_factory=Document)
    _warnings: tuple[Notice, ...] = PrivateAttr(default=())
    _silenced: tuple[Notice, ...] = PrivateAttr(default=())

    @property
    def folder(self) -> FilePath:
        """The folder of the cluster file, from which local paths in it count."""
        return FilePath(self._document.file).parent

    @property
    def zone(self) -> str:
        """The cluster's private DNS zone: nodes are `<node>.<zone>`."""
        return f"{self.name.lower()}.internal"

    @property
    def full_name(self) -> str:
        """No other cluster of the user has it."""
        return f"{self.name} in {self.region}"

    @property
    def ssm_path(self) -> str:
        """The path of its SSM parameters, with a trailing slash."""
        return f"/gpucluster/{self.name}/"

    @property
    def packages_cache(self) -> str | None:
        """The prefix in S3 where the cluster keeps jobs' own packages. None with `users`: they share the jobs' role, so
        each user could put programs there that others run."""
        cache = self.software.cache
        return None if cache is None or self.users else f"{cache.rstrip('/')}/packages"

    @property
    def jobs_have_role(self) -> bool:
        """Whether jobs have a role on AWS, which the head node also uses for the people who work there."""
        return bool(self.s3_access or self.packages_cache or self.security.policies.jobs)

    def jobs_may(self, access: Access, uri: str) -> bool:
        """Whether `s3_access` gives the role of jobs this access to everything below the address."""
        return any(each.covers(uri) and each.access in (access, "read-write") for each in self.s3_access)

    @property
    def home(self) -> Storage:
        """The file system of /home: the head node's NFS unless `storage` has another."""
        at_home = (storage for storage in self.storage if storage.mount == "/home")
        return next(at_home, HOME_ON_HEAD)

    def storage_of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        return tuple(each for each in self.storage if isinstance(each, kind))

    @property
    def lustre(self) -> tuple[FsxLustre, ...]:
        return self.storage_of(FsxLustre)

    @property
    def ram(self) -> BeegfsRam | None:
        """The cluster's BeeGFS, of which there is at most one."""
        return next(iter(self.storage_of(BeegfsRam)), None)

    @property
    def lustre_with_jobs(self) -> tuple[FsxLustre, ...]:
        """The file systems that the head node creates when a job needs them, and deletes when no job does."""
        return tuple(each for each in self.lustre if each.lifetime == "jobs")

    @property
    def asks_fsx(self) -> bool:
        """Whether the head node calls FSx, for which it needs an endpoint in a network without internet."""
        return bool(self.lustre_with_jobs) or any(each.asks_fsx for each in self.storage)

    @property
    def volume_mount(self) -> str:
        """The mount point of the head node's data volume."""
        return "/home" if self.home.on_volume else "/srv/gpucluster"

    @property
    def state_folder(self) -> str:
        """Folder on that volume for Slurm's state and accounting."""
        return "/home/gpucluster" if self.home.on_volume else self.volume_mount

    def partitions_by_path(self) -> Iterator[tuple[Path, Partition]]:
        """Partitions with their paths in the file. Parameter servers come last: Slurm's default is the first."""
        for index, partition in enumerate(self.partitions):
            yield ("partitions", index), partition
        if self.parameter_servers:
            yield ("parameter_servers",), self.parameter_servers.partition()

    @property
    def every_partition(self) -> tuple[Partition, ...]:
        """All partitions, including that of the parameter servers."""
        return tuple(partition for _, partition in self.partitions_by_path())

    @property
    def max_nodes(self) -> int:
        """The sum over all partitions."""
        return sum(partition.max_nodes for partition in self.every_partition)

    def notice(self, finding: Finding) -> Notice:
        """The finding with its line in the file."""
        return self._document.notice(finding)

    def warnings(self) -> list[Notice]:
        """Warnings about the file that the config was read from."""
        return list(self._warnings)

    def silenced(self) -> list[Notice]:
        """Findings about that file that `silence` suppresses."""
        return list(self._silenced)
