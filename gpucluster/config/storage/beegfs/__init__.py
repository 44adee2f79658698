"""BeeGFS in the memory of nodes: the cluster's, served by nodes that are always on, or each job's own."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from gpucluster.config.document import Written
from gpucluster.config.fields import Count
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Difference, Drain, Outcome, drain, in_place
from gpucluster.config.s3_form import BUCKET_NAMES, is_meant, s3_uri
from gpucluster.config.storage.mount import TYPE, Cluster, Mount, Step
from gpucluster.config.value_checks import field, matching
from gpucluster.hardware.prices import Price

_SECTION = "BeeGFS in memory"
_FOLDER = r"(/[A-Za-z0-9._-]+)+/?"
_SOURCE = matching(_FOLDER, "an S3 address such as s3://bucket/prefix, or a folder such as /fsx/imagenet")
_EXPORT = matching(_FOLDER, "an S3 address such as s3://bucket/results, or a folder such as /fsx/results")


@field("beegfs-source-form", section=_SECTION, source=BUCKET_NAMES)
def _source(value: str) -> str:
    """source is an S3 address such as s3://bucket/prefix, or a folder such as /fsx/imagenet"""
    return s3_uri(value) if is_meant(value) else _SOURCE(value)


@field("beegfs-export-form", section=_SECTION, source=BUCKET_NAMES)
def _export(value: str) -> str:
    """export is an S3 address such as s3://bucket/results, or a folder such as /fsx/results"""
    return s3_uri(value) if is_meant(value) else _EXPORT(value)


FillSource = Annotated[str, AfterValidator(_source)]
ExportTarget = Annotated[str, AfterValidator(_export)]


def _as_text(value: Any) -> Any:
    """Without quotes a version is a number."""
    return value.text if isinstance(value, Written) else value


def made_anew(difference: Difference, step: Step) -> Outcome:
    """Its servers are set up when nodes boot, all of them together."""
    mount = difference.entries[0]
    entries = [each for cluster in (step.old, step.new) for each in cluster.mounts if each.mount == mount]
    partitions = dict.fromkeys(each.partition for each in entries if isinstance(each, BeegfsRam))
    return drain(f"{mount} is created again, empty", *(Drain(name) for name in partitions if name in step.old.names))


class BeegfsRam(Mount):
    heading: ClassVar[str] = "BeeGFS in memory"

    type: Annotated[Literal["beegfs-ram"], TYPE]
    partition: str
    gib_per_node: Annotated[Count, Limit("beegfs-fits-memory")]
    scope: Annotated[
        Literal["cluster", "job"], Limit("beegfs-scope", "https://doc.beegfs.io/latest/advanced_topics/beeond.html")
    ] = "cluster"
    version: Annotated[
        Literal["7.4", "8"],
        Limit("beegfs-version", "https://doc.beegfs.io/latest/release_notes.html"),
        BeforeValidator(_as_text),
    ] = "8"
    source: FillSource | None = None
    export: ExportTarget | None = None

    everywhere: ClassVar[bool] = False
    updates = dict.fromkeys(("partition", "gib_per_node", "scope", "version", "source", "export"), made_anew)

    @property
    def outlives_jobs(self) -> bool:
        return self.scope == "cluster"

    @property
    def lost_with_head(self) -> bool:
        return self.scope == "cluster"  # the head node runs its management service

    def summary(self) -> str:
        return f"{self.mount}: BeeGFS, {self.gib_per_node} GiB of memory of each node of {self.partition}"

    def price(self, region: str) -> Price:
        return Price(0.0, region, as_of="")  # it is in the memory of nodes, which are paid for anyway

    def added(self) -> Outcome:
        if self.scope == "job":
            return in_place("applies to jobs that start from now on")
        return drain("nodes of the partition join it when they boot", Drain(self.partition))

    def removed(self, old: Cluster) -> Outcome:
        return drain(f"the files of {self.mount}, in the nodes' memory, are lost", Drain(self.partition))

    def replaced(self, old: Cluster) -> Outcome:
        return drain(f"the files of {self.mount}, in the nodes' memory, are lost", *map(Drain, old.names))
