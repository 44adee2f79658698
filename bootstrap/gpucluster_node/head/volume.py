"""The data volume, which outlives head nodes.

usage: volume attach DEVICE  attaches it to this machine, which then has DEVICE; first stops another head node of this
                             cluster that has it or still runs. Exit status 3: another machine has it
       volume inherit        notes which head node has it; has the bundle applied again if another one had it before,
                             and terminates the compute nodes if the cluster has BeeGFS
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gpucluster_node import fleet, imds
from gpucluster_node.aws import AWS_ERRORS, client, error_code, is_unserved
from gpucluster_node.head import heads
from gpucluster_node.head.release import release
from gpucluster_node.log import start_logging

log = logging.getLogger("volume")
OWNER = "head-instance"
"""This file in the cluster's directory on the volume has the id of the instance that used the volume last."""
INHERITED = Path("/var/lib/gpucluster/inherited")
"""This file exists until the bundle has been applied again, because another head node published its own values."""
FORCE_AFTER_S = 300
"""From then on EC2 is asked to stop a machine by force that is still stopping. EC2 accepts that in every state but
shutting-down and terminated, and may need ten minutes more (EC2's guide, "Troubleshoot stopping your instance")."""
TIMEOUT_S = FORCE_AFTER_S + 600
INTERVAL_S = 1
ORDER = ("running", "pending", "stopping", "shutting-down", "stopped")
"""heads.NOT_TERMINATED, in the order in which this program deals with other head nodes."""
TEMPORARY = ("IncorrectInstanceState", "IncorrectState", "InvalidInstanceID.NotFound", "VolumeInUse")
"""EC2's codes for conditions of the machines that may end soon."""
NOT_OURS_STATUS = 3

Move = Literal["done", "wait", "attach", "detach", "stop", "force"]


class NotOurs(Exception):
    """Another machine has the volume, or is to have it."""


def next_move(
    attachment: Mapping[str, Any] | None,
    other: heads.Head | None,
    me: heads.Head,
    *,
    wanted: bool,
    stuck: bool = False,
    volume: str = "the data volume",
) -> Move:
    """attachment: from DescribeVolumes. other: the instance that it names; without an attachment, another head node of
    this cluster. wanted: whether this one is the stack's. stuck: the other one does not stop. Raises NotOurs."""
    if attachment and attachment["InstanceId"] == me.instance_id:
        return "done" if attachment["State"] == "attached" else "wait"
    if other is None:
        return "wait" if attachment else "attach"
    is_leaving = attachment is not None and attachment["State"] == "detaching"
    if not (wanted and me.cluster and other.belongs_to(me.cluster)):
        if is_leaving:
            return "wait"
        what = f"has {volume}" if attachment else "is a head node of this cluster"
        raise NotOurs(f"{other.instance_id} {what}, and this machine must not take the volume")
    if other.state == "stopped" and not is_leaving:
        return "detach" if attachment else "attach"
    moves: dict[str, Move] = {"pending": "stop", "running": "stop", "stopping": "force" if stuck else "wait"}
    return moves.get(other.state, "wait")


def attach(cluster: fleet.Fleet, device: Path, takeover: Takeover | None = None) -> None:
    """A volume is attached to one machine only. So a machine that has the device restarts without AWS's API. Raises
    NotOurs, TimeoutError."""
    if device.exists():
        return
    takeover, deadline, why = takeover or Takeover(cluster), time.monotonic() + TIMEOUT_S, ""
    while time.monotonic() < deadline:
        try:
            if takeover.step() == "done":
                return
        except (*AWS_ERRORS, OSError) as error:
            if not _may_end_soon(error):
                raise
            why = f": {error}"
            log.warning("%s", error)
        time.sleep(INTERVAL_S)
    raise TimeoutError(f"{takeover.volume} could not be attached within {TIMEOUT_S} s{why}")


def _may_end_soon(error: Exception) -> bool:
    """Also errors of a machine whose network or role is not there yet."""
    return is_unserved(error) or error_code(error) in TEMPORARY


@dataclass
class Takeover:
    """The steps until this machine has the volume."""

    cluster: fleet.Fleet
    parameter: str = "head"
    """The SSM parameter that has the volume's id."""
    volume: str = "the data volume"
    """For messages."""
    last: Move | None = None
    stopping: dict[str, float] = field(default_factory=dict)
    """Instance -> when it was first seen stopping."""
    forced: set[str] = field(default_factory=set)
    """Instances that EC2 was asked to stop by force: once each."""

    def step(self) -> Move:
        """Checks the volume, takes one action, and returns its name."""
        ec2, ssm = client("ec2"), client("ssm")
        head, me = fleet.parameter(ssm, self.cluster, self.parameter), heads.find(ec2, imds.instance_id())
        attachment = _attachment(ec2, head["volume_id"])
        other = self._other(ec2, attachment, me)
        wanted = other is not None and heads.is_wanted(me, ssm, self.cluster)
        stuck = other is not None and self._is_stuck(other)
        move = next_move(attachment, other, me, wanted=wanted, stuck=stuck, volume=self.volume)
        self._tell(move, head["volume_id"], other if other and move != "attach" else me)
        if move == "attach":
            device = head.get("device") or free_device(ec2, me.instance_id)
            ec2.attach_volume(VolumeId=head["volume_id"], InstanceId=me.instance_id, Device=device)
        elif other:
            self._send_away(ec2, move, head["volume_id"], other.instance_id)
        self.last = move
        return move

    def _other(self, ec2: Any, attachment: Mapping[str, Any] | None, me: heads.Head) -> heads.Head | None:
        """The instance that has the volume. If nobody has it, another head node, first one that runs: its Slurm
        controller may still act on the cluster's nodes."""
        if attachment:
            return None if attachment["InstanceId"] == me.instance_id else heads.find(ec2, attachment["InstanceId"])
        return min(heads.others(ec2, self.cluster, me), key=lambda each: ORDER.index(each.state), default=None)

    def _is_stuck(self, other: heads.Head) -> bool:
        if other.state != "stopping" or other.instance_id in self.forced:
            return False
        since = self.stopping.setdefault(other.instance_id, time.monotonic())
        return time.monotonic() - since >= FORCE_AFTER_S

    def _send_away(self, ec2: Any, move: Move, volume_id: str, other: str) -> None:
        if move == "detach":
            ec2.detach_volume(VolumeId=volume_id, InstanceId=other)
        elif move == "stop":
            ec2.stop_instances(InstanceIds=[other])
        elif move == "force":
            ec2.stop_instances(InstanceIds=[other], Force=True)
            self.forced.add(other)

    def _tell(self, move: Move, volume_id: str, head: heads.Head) -> None:
        if move != self.last and move not in ("done", "wait"):
            log.info("%s: %s, %s is %s", volume_id, move, head.instance_id, head.state)


def free_device(ec2: Any, instance_id: str) -> str:
    """One of the names that EC2's guide recommends, after that of the data volume, /dev/sdf. Raises NotOurs."""
    of_me = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    attached = (each for volume in ec2.describe_volumes(Filters=of_me)["Volumes"] for each in volume["Attachments"])
    taken = {each["Device"] for each in attached}
    free = [name for name in (f"/dev/sd{letter}" for letter in "ghijklmnop") if name not in taken]
    if not free:
        raise NotOurs(
            f"{instance_id} has no device name left from /dev/sdg to /dev/sdp: detach a volume that is no longer used"
        )
    return free[0]


def _attachment(ec2: Any, volume_id: str) -> Mapping[str, Any] | None:
    volume = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
    found: list[Mapping[str, Any]] = [each for each in volume["Attachments"] if each.get("State") != "detached"]
    return found[0] if found else None


def inherit(cluster: fleet.Fleet, inherited: Path = INHERITED, bundle: Path = fleet.BUNDLE) -> None:
    my_id, owner = imds.instance_id(), Path(cluster.state, OWNER)
    before = owner.read_text().strip() if owner.exists() else ""
    if before == my_id:
        return
    if before:
        if _manages_beegfs(bundle):
            log.info("the head node was %s: terminating its compute nodes, which have lost BeeGFS with it", before)
            release(cluster)
        else:
            log.info("the head node was %s: its compute nodes and their jobs go on with this one", before)
        inherited.parent.mkdir(parents=True, exist_ok=True)
        inherited.touch()
    owner.write_text(f"{my_id}\n")


def _manages_beegfs(bundle: Path) -> bool:
    """Whether a file system of the whole cluster is in the nodes' memory. The management service was on the old
    head node's own disk, and the file system cannot be used without it."""
    settings = bundle / "beegfs.json"
    return settings.exists() and json.loads(settings.read_text()).get("scope") == "cluster"


def main() -> None:
    start_logging()
    try:
        if sys.argv[1] == "attach":
            attach(fleet.load(), Path(sys.argv[2]))
        else:
            inherit(fleet.load())
    except (NotOurs, TimeoutError, *AWS_ERRORS) as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_OURS_STATUS if isinstance(error, NotOurs) else 1)


if __name__ == "__main__":
    main()
