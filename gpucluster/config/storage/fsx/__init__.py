"""FSx for Lustre: a file system for the cluster's lifetime, or one that exists while jobs use it."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gpucluster.config.fields import Amount, Count, S3Uri, Whole
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Outcome, in_place, refused
from gpucluster.config.section import Section
from gpucluster.config.storage.fsx.lustre import throughput_mbps_per_tib
from gpucluster.config.storage.fsx.updates import UPDATES
from gpucluster.config.storage.mount import TYPE, Cluster, Mount, OnDelete
from gpucluster.config.value_checks import form
from gpucluster.hardware import prices

Events = Annotated[
    tuple[Literal["new", "changed", "deleted"], ...],
    Limit("fsx-link-events", "AWS::FSx::DataRepositoryAssociation S3.AutoImportPolicy.Events"),
]
DirectoryPath = Annotated[
    str,
    form(
        "repository-path-form",
        "FSx for Lustre",
        "A data repository's path",
        r"/[!-~]*",
        "an absolute path such as /imagenet",
        "AWS::FSx::DataRepositoryAssociation FileSystemPath: it begins with a slash",
    ),
]


class DataRepository(Section):
    heading: ClassVar[str] = "FSx for Lustre"

    path: DirectoryPath
    s3: S3Uri
    import_: Events = Field(default=(), alias="import")
    export: Events = ()


class FsxLustre(Mount):
    heading: ClassVar[str] = "FSx for Lustre"

    type: Annotated[Literal["fsx-lustre"], TYPE]
    deployment: Annotated[
        Literal["scratch-1", "scratch-2", "persistent-1", "persistent-2"],
        Limit("fsx-deployment-type", "AWS::FSx::FileSystem LustreConfiguration.DeploymentType"),
    ] = "persistent-2"
    capacity_gib: Annotated[Count, Limit("fsx-capacity-step")] = 4800
    throughput_mbps_per_tib: Annotated[Count | None, Limit("fsx-throughput-tier")] = None
    compression: Annotated[
        Literal["none", "lz4"], Limit("fsx-compression", "AWS::FSx::FileSystem LustreConfiguration.DataCompressionType")
    ] = "none"
    efa: bool = False
    metadata_iops: Annotated[Count | None, Limit("fsx-metadata-iops-values")] = None
    backup_days: Annotated[Whole, Limit("fsx-backup-days")] = 0
    on_delete: OnDelete = "delete"
    lifetime: Annotated[
        Literal["cluster", "jobs"],
        Limit("fsx-lifetime", "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html"),
    ] = "cluster"
    idle_minutes: Annotated[
        Amount, Limit("fsx-idle-above-zero", "https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html")
    ] = 10.0
    data_repositories: tuple[DataRepository, ...] = ()

    at_boot: ClassVar[bool] = True
    watched: ClassVar[bool] = True
    updates = UPDATES

    @property
    def with_jobs(self) -> bool:
        """Whether the head node creates it when a job needs it, and deletes it when no job does."""
        return self.lifetime == "jobs"

    @property
    def clients(self) -> tuple[str, ...]:
        return ("fsx", "fsx-efa") if self.efa else ("fsx",)

    def tagged_name(self, cluster: str) -> str:
        return cluster + self.mount.replace("/", "-")

    def for_nodes(self) -> dict[str, Any]:
        """Folders that are only imported from S3 belong to root."""
        own = [each.path for each in self.data_repositories if each.export or not each.import_]
        paths = [each.path for each in self.data_repositories]
        found = super().for_nodes() | {"efa": self.efa, "data_repositories": paths}
        found["for_everybody"] += own
        return found | ({"lifetime": "jobs", "idle_s": int(self.idle_minutes * 60)} if self.with_jobs else {})

    def summary(self) -> str:
        lives = " while jobs use it" if self.with_jobs else ""
        return f"{self.mount}: FSx for Lustre {self.deployment}, {self.capacity_gib} GiB{lives}"

    def price(self, region: str) -> prices.Price | None:
        price = prices.of(prices.lustre(self.deployment, throughput_mbps_per_tib(self)), region)
        return price and price.hourly(self.capacity_gib)

    @property
    def paid_always(self) -> bool:
        return not self.with_jobs

    def goes(self) -> str:
        if not self.with_jobs:
            return super().goes()
        return f"{self.mount}, on {self.type}, with all files in it, if it exists now (lifetime: jobs)"

    def added(self) -> Outcome:
        return in_place("created when the first job needs it") if self.with_jobs else super().added()

    def removed(self, old: Cluster) -> Outcome:
        return self.orphaned(old) if self.with_jobs else super().removed(old)

    def replaced(self, old: Cluster) -> Outcome:
        return self.orphaned(old) if self.with_jobs else super().replaced(old)

    def orphaned(self, old: Cluster) -> Outcome:
        """The head node deletes a file system with `lifetime: jobs` only as long as the file names it."""
        wait = f"cancel the jobs that use {self.mount}, or wait for them"
        return refused(
            f"{self.mount} has a file system now, and nothing would delete it afterwards",
            f"{wait}; the head node deletes it when it is idle and exported to S3; then run `up`",
            while_there=self.tagged_name(old.name),
        )
