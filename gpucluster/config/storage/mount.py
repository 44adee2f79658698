"""What every kind of storage is asked. Nothing else of the project knows a kind by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from gpucluster.config.fields import MountPoint
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Drain, Effect, Outcome, Rule, in_place, refused
from gpucluster.config.section import Section

if TYPE_CHECKING:
    from gpucluster.layout import Layout

TYPE = Limit("storage-type", "AWS::FSx::FileSystem FileSystemType", "Mounts")
OnDelete = Annotated[
    Literal["delete", "retain"],
    Limit(
        "storage-on-delete",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html: Snapshot",
        "Mounts",
    ),
]
ON_DELETE = in_place("applies when the entry or the cluster is deleted")


class Mount(Section):
    mount: MountPoint
    type: str

    updates: ClassVar[Mapping[str, Outcome | Rule]] = {}
    """Key below `storage[]` -> what its change does to a cluster that runs."""
    at_boot: ClassVar[bool] = False
    """Every node mounts it when it boots: storage.json has it, and a parameter says where it lies."""
    everywhere: ClassVar[bool] = True
    """The head node and all compute nodes have it, as long as they run."""
    on_volume: ClassVar[bool] = False
    """It lies on the head node's data volume, which is there in any case."""
    watched: ClassVar[bool] = False
    """An alarm is called after its mount."""

    @property
    def parameter(self) -> str:
        """Of SSM, below the cluster's path."""
        return "storage/" + self.mount.strip("/").replace("/", "-")

    @property
    def outlives_jobs(self) -> bool:
        """Every job finds what an earlier one left."""
        return True

    @property
    def deleted_with_cluster(self) -> bool | None:
        """None where its data is no file system's of its own."""
        kept = {"delete": True, "retain": False}
        return kept.get(getattr(self, "on_delete", ""))

    @property
    def clients(self) -> tuple[str, ...]:
        """What an image may bring along for it: words of bootstrap/steps/storage/storage_clients.sh."""
        return ()

    def told(self) -> dict[str, Any]:
        """Of storage.json: what is known before the deployment. AWS gives file systems to root."""
        return {"mount": self.mount, "type": self.type, "parameter": self.parameter, "for_everybody": ["/"]}

    def summary(self) -> str:
        """For `plan`; empty where nothing is made."""
        return ""

    def goes(self) -> str:
        """For `down`."""
        return f"{self.mount}, on {self.type}, with all files in it (on_delete: delete)"

    def stays(self) -> str:
        """For `down`."""
        return f"{self.mount}, on {self.type} (on_delete: retain)"

    def added(self) -> Outcome:
        return in_place("created now; running nodes mount it before their next job")

    def removed(self, old: Layout) -> Outcome:
        """What AWS does with the file system is what the deployed file says, not the new one."""
        if self.deleted_with_cluster is False:
            what = "nodes unmount it; the file system stays in your account, and costs money, until you delete it"
            return _everybody_lets_go(what, old)
        return self._loses()

    def replaced(self, old: Layout) -> Outcome:
        """By another kind, under the same mount."""
        if self.deleted_with_cluster is False:
            what = f"{self.mount} becomes a new, empty file system; the old one stays in your account"
            return _everybody_lets_go(what, old)
        return self._loses()

    def _loses(self) -> Outcome:
        keep = f"set on_delete: retain for {self.mount} and run `up`"
        hint = f"{keep}; then remove the entry: the file system stays in your account"
        return refused(f"all data in {self.mount} would be deleted", hint)


def _everybody_lets_go(what: str, old: Layout) -> Outcome:
    return Outcome(Effect.DRAIN, what, drains=tuple(map(Drain, old.names)))
