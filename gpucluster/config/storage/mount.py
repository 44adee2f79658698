"""The interface of all kinds of storage, for code that treats all mounts alike. Code about what only one kind has names
that kind."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol

from gpucluster.config.fields import MountPoint
from gpucluster.config.limits import Limit
from gpucluster.config.outcome import Drain, Effect, Outcome, Rule, in_place, refused
from gpucluster.config.section import Section
from gpucluster.hardware.prices import Price

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


class Cluster(Protocol):
    """The cluster around a mount, for updates. `layout.Layout` implements it."""

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its partitions."""

    @property
    def mounts(self) -> "tuple[Mount, ...]": ...


class Step(Protocol):
    """An update from one cluster to the next."""

    @property
    def old(self) -> Cluster: ...

    @property
    def new(self) -> Cluster: ...


class Mount(Section):
    mount: MountPoint
    type: str

    updates: ClassVar[Mapping[str, Outcome | Rule[Step]]] = {}
    """Key below `storage[]` -> the effect of its change on a running cluster."""
    at_boot: ClassVar[bool] = False
    """Every node mounts it at boot: it is in storage.json, and an SSM parameter has its address."""
    everywhere: ClassVar[bool] = True
    """The head node and all compute nodes have it mounted as long as they run."""
    on_volume: ClassVar[bool] = False
    """It is on the head node's data volume, which always exists."""
    asks_fsx: ClassVar[bool] = False
    """The head node asks FSx for its address, which only FSx knows."""
    watched: ClassVar[bool] = False
    """An alarm is named after its mount."""

    @property
    def parameter(self) -> str:
        """The name of its SSM parameter, below the cluster's path."""
        return "storage/" + self.mount.strip("/").replace("/", "-")

    @property
    def outlives_jobs(self) -> bool:
        """Files of earlier jobs stay."""
        return True

    @property
    def lost_with_head(self) -> bool:
        """Its files are lost when another instance becomes the head node."""
        return False

    @property
    def deleted_with_cluster(self) -> bool | None:
        """None if it is no separate file system."""
        kept = {"delete": True, "retain": False}
        return kept.get(getattr(self, "on_delete", ""))

    @property
    def clients(self) -> tuple[str, ...]:
        """Clients that an image may include for it: names in bootstrap/steps/storage/storage_clients.sh."""
        return ()

    def for_nodes(self) -> dict[str, Any]:
        """Its entry in storage.json, without the deployment's values. AWS creates file systems owned by root."""
        return {"mount": self.mount, "type": self.type, "parameter": self.parameter, "for_everybody": ["/"]}

    def summary(self) -> str:
        """Its line in `plan`; empty if nothing is created."""
        return ""

    def price(self, region: str) -> Price | None:
        """Its price per hour in `plan`. None if it depends on usage or is unknown."""
        return None

    @property
    def paid_always(self) -> bool:
        """False if it exists only while jobs use it."""
        return True

    def goes(self) -> str:
        """For `down`."""
        return f"{self.mount}, on {self.type}, with all files in it (on_delete: delete)"

    def stays(self) -> str:
        """For `down`."""
        return f"{self.mount}, on {self.type} (on_delete: retain)"

    def added(self) -> Outcome:
        return in_place("created now; running nodes mount it before their next job")

    def removed(self, old: Cluster) -> Outcome:
        """The deployed file, not the new one, decides what AWS does with the file system."""
        if self.deleted_with_cluster is False:
            what = "nodes unmount it; the file system stays in your account, and costs money, until you delete it"
            return _everybody_lets_go(what, old)
        return self._loses()

    def replaced(self, old: Cluster) -> Outcome:
        """The effect if another kind takes over the mount."""
        if self.deleted_with_cluster is False:
            what = f"{self.mount} becomes a new, empty file system; the old one stays in your account"
            return _everybody_lets_go(what, old)
        return self._loses()

    def _loses(self) -> Outcome:
        keep = f"set on_delete: retain for {self.mount} and run `up`"
        hint = f"{keep}; then remove the entry: the file system stays in your account"
        return refused(f"all data in {self.mount} would be deleted", hint)


def _everybody_lets_go(what: str, old: Cluster) -> Outcome:
    return Outcome(Effect.DRAIN, what, drains=tuple(map(Drain, old.names)))
