"""The data volume, which outlives head nodes.

usage: volume attach   attaches it to this machine; first stops another head node of this cluster that still has it
       volume inherit  notes which head node has it; has the bundle applied again if another one had it before, and
                       terminates the compute nodes if the cluster has BeeGFS
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from botocore.exceptions import ClientError

from gpucluster_node import fleet, imds
from gpucluster_node.aws import AWS_ERRORS, client, error_code
from gpucluster_node.head import heads
from gpucluster_node.head.release import release
from gpucluster_node.log import start_logging

log = logging.getLogger("volume")
OWNER = "head-instance"
"""This file in the cluster's directory on the volume has the id of the instance that used the volume last."""
INHERITED = Path("/var/lib/gpucluster/inherited")
"""This file exists until the bundle has been applied again, because another head node published its own values."""
TIMEOUT_S = 900
"""A machine may take minutes to stop."""
INTERVAL_S = 1
TEMPORARY = (
    "IncorrectInstanceState",
    "IncorrectState",
    "InvalidInstanceID.NotFound",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "Unavailable",
    "VolumeInUse",
)
"""EC2's codes for conditions that may end soon. The program also waits for the network to start."""

Move = Literal["done", "wait", "attach", "detach", "stop"]


class NotOurs(Exception):
    """Another machine has the volume."""


def next_move(attachment: Mapping[str, Any] | None, holder: heads.Head | None, me: heads.Head, *, wanted: bool) -> Move:
    """attachment: from DescribeVolumes; holder: the instance that it names. Raises NotOurs."""
    if attachment is None:
        return "attach"
    if attachment["InstanceId"] == me.instance_id:
        return "done" if attachment["State"] == "attached" else "wait"
    if holder is None or attachment["State"] == "detaching":
        return "wait"
    if not (wanted and me.cluster and holder.belongs_to(me.cluster)):
        raise NotOurs(f"{holder.instance_id} has the data volume, and this machine must not take it")
    moves: dict[str, Move] = {"pending": "stop", "running": "stop", "stopped": "detach"}
    return moves.get(holder.state, "wait")


def attach(cluster: fleet.Fleet) -> None:
    """Raises NotOurs, TimeoutError."""
    deadline, last, why = time.monotonic() + TIMEOUT_S, None, ""
    while time.monotonic() < deadline:
        try:
            last = _step(cluster, last)
        except (*AWS_ERRORS, OSError) as error:
            if isinstance(error, ClientError) and error_code(error) not in TEMPORARY:
                raise
            why = f": {error}"
            log.warning("%s", error)
        if last == "done":
            return
        time.sleep(INTERVAL_S)
    raise TimeoutError(f"the data volume could not be attached within {TIMEOUT_S} s{why}")


def _step(cluster: fleet.Fleet, last: Move | None) -> Move:
    """Checks the volume, takes one action, and returns its name."""
    ec2, my_id = client("ec2"), imds.instance_id()
    place = fleet.parameter(client("ssm"), cluster, "head")
    volume_id, me = place["volume_id"], heads.find(ec2, my_id)
    attachment = _attachment(ec2, volume_id)
    other = attachment["InstanceId"] if attachment and attachment["InstanceId"] != my_id else None
    holder = heads.find(ec2, other) if other else None
    wanted = holder is not None and heads.is_wanted(me, client("ssm"), cluster)
    move = next_move(attachment, holder, me, wanted=wanted)
    if move in ("attach", "detach", "stop") and move != last:
        log.info("%s: %s, %s", volume_id, move, f"from {other}" if other else f"to {my_id}")
    if move == "attach":
        ec2.attach_volume(VolumeId=volume_id, InstanceId=my_id, Device=place["device"])
    elif move == "detach":
        ec2.detach_volume(VolumeId=volume_id, InstanceId=other)
    elif move == "stop":
        ec2.stop_instances(InstanceIds=[other])
    return move


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
        {"attach": attach, "inherit": inherit}[sys.argv[1]](fleet.load())
    except (NotOurs, TimeoutError, *AWS_ERRORS) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
