"""BeeGFS in the memory of nodes: the cluster's, served by nodes that are always on, or each job's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from gpucluster.config.fields import Count, ExportTarget, FillSource
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Drain, Outcome, drain, in_place
from gpucluster.config.storage.mount import TYPE, Mount

if TYPE_CHECKING:
    from gpucluster.layout import Layout
    from gpucluster.updates.difference import Difference
    from gpucluster.updates.rules import Step


def made_anew(difference: Difference, step: Step) -> Outcome:
    """Its servers are set up when a node boots: all of them, together."""
    mount = difference.entries[0]
    entries = [each for layout in (step.old, step.new) for each in layout.config.storage_of(BeegfsRam)]
    partitions = dict.fromkeys(each.partition for each in entries if each.mount == mount)
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
        Literal["7.4", "8"], Limit("beegfs-version", "https://doc.beegfs.io/latest/release_notes.html")
    ] = "8"
    source: FillSource | None = None
    export: ExportTarget | None = None

    everywhere: ClassVar[bool] = False
    updates = dict.fromkeys(("partition", "gib_per_node", "scope", "version", "source", "export"), made_anew)

    @property
    def outlives_jobs(self) -> bool:
        return self.scope == "cluster"

    def summary(self) -> str:
        return f"{self.mount}: BeeGFS, {self.gib_per_node} GiB of memory of each node of {self.partition}"

    def added(self) -> Outcome:
        if self.scope == "job":
            return in_place("applies to jobs that start from now on")
        return drain("nodes of the partition join it when they boot", Drain(self.partition))

    def removed(self, old: Layout) -> Outcome:
        return drain(f"the files of {self.mount}, in the nodes' memory, are lost", Drain(self.partition))

    def replaced(self, old: Layout) -> Outcome:
        return drain(f"the files of {self.mount}, in the nodes' memory, are lost", *map(Drain, old.names))
