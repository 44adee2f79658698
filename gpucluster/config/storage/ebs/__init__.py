"""EBS: a volume on the head node, new or one that exists, which the head node shares with all nodes."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gpucluster.config.fields import Count
from gpucluster.config.identifiers import SnapshotId
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Difference, Drain, Effect, Outcome, Rule, in_place, refused
from gpucluster.config.storage.ids import EbsVolumeId
from gpucluster.config.storage.mount import ON_DELETE, TYPE, Cluster, Mount, Step
from gpucluster.hardware import prices

CREATE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html"
DEFAULT_GIB, DEFAULT_TYPE = 100, "gp3"
NEW_MOUNT = "add a second entry under another mount, and copy the files"
_SOON_AGAIN = "EBS changes the volume in use; the next change is possible after six hours"


def _size(difference: Difference, step: Step) -> Outcome:
    at = difference.entries[0]
    if any(getattr(each, "volume_id", None) for each in (*step.old.mounts, *step.new.mounts) if each.mount == at):
        return in_place("a volume that exists has its own size")
    if (difference.new or DEFAULT_GIB) < (difference.old or DEFAULT_GIB):
        return refused("EBS cannot reduce the size of a volume", NEW_MOUNT)
    return in_place("the volume and its file system grow while it is in use")


def _another(difference: Difference, step: Step) -> Outcome:
    """The deployed entry decides what becomes of a volume that the cluster made."""
    old = next(each for each in step.old.mounts if each.mount == difference.entries[0])
    gone = old.removed(step.old)
    return gone._replace(happens=f"the head node shares {difference.new or 'a new volume'} there; {gone.happens}")


class Ebs(Mount):
    """A new volume has no `volume_id`; only then other keys are allowed."""

    heading: ClassVar[str] = "Volumes"

    type: Annotated[Literal["ebs"], TYPE]
    gib: Annotated[Count | None, Limit("ebs-size", f"{CREATE}: Size")] = None
    volume_type: Annotated[
        Literal["gp3", "gp2", "io2", "io1", "st1", "sc1"] | None, Limit("ebs-volume-type", f"{CREATE}: VolumeType")
    ] = None
    iops: Annotated[Count | None, Limit("ebs-iops", f"{CREATE}: Iops")] = None
    throughput_mibps: Annotated[Count | None, Limit("ebs-throughput", f"{CREATE}: Throughput")] = None
    snapshot_id: SnapshotId | None = None
    volume_id: EbsVolumeId | None = None
    on_delete: Annotated[
        Literal["delete", "snapshot", "retain"] | None,
        Limit(
            "ebs-on-delete",
            "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html: "
            "Snapshot",
        ),
    ] = None

    at_boot: ClassVar[bool] = True
    updates: ClassVar[Mapping[str, Outcome | Rule[Step]]] = {
        "gib": _size,
        "volume_type": in_place(_SOON_AGAIN),
        "iops": in_place(_SOON_AGAIN),
        "throughput_mibps": in_place(_SOON_AGAIN),
        "snapshot_id": refused("EBS would create another volume", NEW_MOUNT),
        "volume_id": _another,
        "on_delete": ON_DELETE,
    }

    @property
    def kind(self) -> str:
        return self.volume_type or DEFAULT_TYPE

    @property
    def at_end(self) -> Literal["delete", "snapshot", "retain"]:
        """What becomes of a new volume when its entry or the cluster is deleted."""
        return self.on_delete or "snapshot"

    @property
    def size_gib(self) -> int | None:
        """None: as large as the snapshot, or as the volume that exists."""
        return self.gib or (None if self.snapshot_id or self.volume_id else DEFAULT_GIB)

    @property
    def is_blank(self) -> bool:
        """Whether the head node may make a file system on it."""
        return self.volume_id is None and self.snapshot_id is None

    @property
    def deleted_with_cluster(self) -> bool | None:
        return self.volume_id is None and self.at_end != "retain"

    def for_nodes(self) -> dict[str, Any]:
        """Everybody may write to a new volume. The files of others keep their modes."""
        known = {"gib": self.size_gib or 0, "blank": self.is_blank, "volume_id": self.volume_id or ""}
        return {**super().for_nodes(), **known, "for_everybody": ["/"] if self.is_blank else []}

    def summary(self) -> str:
        what = self.volume_id or self.snapshot_id or f"{self.size_gib} GiB"
        return f"{self.mount}: EBS {self.volume_id or f'{self.kind}, {what}'}, shared by the head node"

    def price(self, region: str) -> prices.Price | None:
        if self.volume_id:
            return prices.Price(0.0, region, as_of="")  # it is paid for without the cluster too
        if self.kind != "gp3" or self.iops or self.throughput_mibps:
            return None
        price = prices.of(prices.GP3, region)
        return price.hourly(self.size_gib) if price and self.size_gib else None

    def goes(self) -> str:
        if self.at_end == "snapshot":
            return f"{self.mount}, an EBS volume, after a final snapshot of it (on_delete: snapshot)"
        return f"{self.mount}, an EBS volume, with all files in it (on_delete: delete)"

    def stays(self) -> str:
        if self.volume_id:
            return f"{self.mount}, the EBS volume {self.volume_id}: it is not the cluster's"
        return f"{self.mount}, an EBS volume (on_delete: retain)"

    def added(self) -> Outcome:
        return in_place("the head node shares it now; running nodes mount it before their next job")

    def removed(self, old: Cluster) -> Outcome:
        return self._let_go(old)

    def replaced(self, old: Cluster) -> Outcome:
        return self._let_go(old)

    def _let_go(self, old: Cluster) -> Outcome:
        if self.volume_id is None and self.at_end == "delete":
            return self._loses()
        stays = "its final snapshot" if self.deleted_with_cluster else self.volume_id or "the volume"
        what = f"nodes unmount it; {stays} stays in your account"
        return Outcome(Effect.DRAIN, what, drains=tuple(map(Drain, old.names)))
