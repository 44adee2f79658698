"""File systems that exist already: nodes mount them, and the cluster never creates, changes or deletes them."""

from typing import Annotated, Any, ClassVar, Literal

from gpucluster.config.outcome import Difference, Drain, Effect, Outcome, in_place, refused
from gpucluster.config.storage.ids import AccessPointId, FileSystemId, FsxVolumeId
from gpucluster.config.storage.mount import TYPE, Cluster, Mount, Step
from gpucluster.hardware.prices import Price


def _another(difference: Difference, step: Step) -> Outcome:
    if difference.entries[0] == "/home":
        return refused("the files in /home would not be moved", "create a new cluster under another name")
    what = f"nodes mount {difference.new or 'the whole file system'} there; {difference.old or 'it'} stays as it is"
    return Outcome(Effect.DRAIN, what, drains=tuple(map(Drain, step.old.names)))


class Existing(Mount):
    at_boot: ClassVar[bool] = True
    updates = {"file_system_id": _another}
    id_key: ClassVar[str] = "file_system_id"
    """The key that names it."""

    @property
    def its_id(self) -> str:
        return str(getattr(self, self.id_key))

    @property
    def deleted_with_cluster(self) -> bool | None:
        return False

    def for_nodes(self) -> dict[str, Any]:
        """Its owner decides who may write."""
        return {**super().for_nodes(), self.id_key: self.its_id, "for_everybody": []}

    def summary(self) -> str:
        return f"{self.mount}: {self.type} {self.its_id}, which exists already"

    def price(self, region: str) -> Price:
        return Price(0.0, region, as_of="")  # it is paid for without the cluster too

    def stays(self) -> str:
        return f"{self.mount}, on {self.type} {self.its_id}: it is not the cluster's"

    def added(self) -> Outcome:
        return in_place("the head node mounts it now, running nodes before their next job")

    def removed(self, old: Cluster) -> Outcome:
        return self._let_go(f"nodes unmount it; {self.its_id} stays as it is", old)

    def replaced(self, old: Cluster) -> Outcome:
        return self._let_go(f"nodes mount another file system there; {self.its_id} stays as it is", old)

    def _let_go(self, what: str, old: Cluster) -> Outcome:
        return Outcome(Effect.DRAIN, what, drains=tuple(map(Drain, old.names)))


class ExistingLustre(Existing):
    type: Annotated[Literal["fsx-lustre"], TYPE]
    file_system_id: FileSystemId

    asks_fsx: ClassVar[bool] = True

    @property
    def clients(self) -> tuple[str, ...]:
        return ("fsx",)


class ExistingEfs(Existing):
    type: Annotated[Literal["efs"], TYPE]
    file_system_id: FileSystemId
    access_point_id: AccessPointId | None = None

    updates = {"file_system_id": _another, "access_point_id": _another}

    def for_nodes(self) -> dict[str, Any]:
        through = {"mount_name": self.access_point_id} if self.access_point_id else {}
        return super().for_nodes() | through

    @property
    def clients(self) -> tuple[str, ...]:
        return ("efs",)


class _FsxVolume(Existing):
    asks_fsx: ClassVar[bool] = True
    id_key: ClassVar[str] = "volume_id"
    updates = {"volume_id": _another}


class OpenZfs(_FsxVolume):
    type: Annotated[Literal["fsx-openzfs"], TYPE]
    volume_id: FsxVolumeId


class Ontap(_FsxVolume):
    type: Annotated[Literal["fsx-ontap"], TYPE]
    volume_id: FsxVolumeId
