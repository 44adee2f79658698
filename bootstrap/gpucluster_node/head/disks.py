"""The EBS volumes of cluster.yaml's `storage`, which the head node has and shares.

usage: disks mount MOUNT     attaches the volume of the mount, makes a file system on it if it is new and empty, mounts
                             it, and lets its file system grow. Exit status 3: another machine has it
       disks changed MOUNT   exit status 0: another volume is mounted there than the one that `storage` names
       disks detach MOUNT    after its entry is gone: detaches the volume that was mounted there
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gpucluster_node import fleet, imds
from gpucluster_node.aws import AWS_ERRORS, client, error_code
from gpucluster_node.head import volume
from gpucluster_node.log import start_logging

log = logging.getLogger("disks")
NOTES = Path("/var/lib/gpucluster/disks")
"""A file for each mount, with its volume's id."""
LINKS = Path("/dev/disk/by-id")
DEVICE_WITHIN_S = 300
MOUNTED = ("ext2", "ext3", "ext4", "xfs", "btrfs")
"""The file systems that the head node mounts."""
NOTHING_FOUND, SEVERAL_FOUND = 2, 8
"""Exit statuses of blkid -p: blkid(8)."""

Plan = Literal["format", "mount"]


class Unusable(Exception):
    """The volume cannot be mounted as it is."""


def plan(found: Mapping[str, str] | None, volume_id: str, *, blank: bool) -> Plan:
    """found: what blkid sees on the device; None if it sees nothing. blank: the cluster made the volume, empty. Only
    such a volume is ever formatted. Raises Unusable."""
    if found is None:
        if blank:
            return "format"
        raise Unusable(f"{volume_id} has no file system: make one (mkfs.ext4), or leave out volume_id and snapshot_id")
    kind, table = found.get("TYPE", ""), found.get("PTTYPE")
    if table and not kind:
        raise Unusable(f"{volume_id} has a partition table ({table}): a file system must be on the whole volume")
    if kind not in MOUNTED:
        raise Unusable(
            f"{volume_id} has {kind or 'unknown content'}: it must have {', '.join(MOUNTED)}; it stays as it is"
        )
    return "mount"


def options(kind: str) -> str:
    """XFS refuses a second file system of the same identity, such as one of a snapshot, without `nouuid`."""
    return "noatime,nouuid" if kind == "xfs" else "noatime"


def grow(kind: str, device: Path, mount: str) -> list[str] | None:
    """The command that enlarges a mounted file system to its device's size."""
    commands = {"xfs": ["xfs_growfs", mount], "btrfs": ["btrfs", "filesystem", "resize", "max", mount]}
    return ["resize2fs", str(device)] if kind.startswith("ext") else commands.get(kind)


def link(volume_id: str) -> Path:
    return LINKS / f"nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"


def blkid(device: Path) -> dict[str, str] | None:
    """Raises Unusable if the device has signatures of several things."""
    done = subprocess.run(["blkid", "-p", "-o", "export", device], capture_output=True, text=True, check=False)
    if done.returncode == NOTHING_FOUND:
        return None
    if done.returncode == SEVERAL_FOUND:
        raise Unusable(f"{device} has the signatures of several file systems: wipefs shows them")
    if done.returncode:
        raise Unusable(f"blkid cannot read {device}: {done.stderr.strip()}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def wait_for(device: Path, gib: int) -> None:
    """A volume that was just attached or enlarged takes a moment to appear. Raises Unusable."""
    for _ in range(DEVICE_WITHIN_S):
        if device.exists() and _bytes(device) >= gib << 30:
            return
        time.sleep(1)
    raise Unusable(f"{device.name} did not appear with {gib} GiB within {DEVICE_WITHIN_S} s")


def _bytes(device: Path) -> int:
    said = subprocess.run(["blockdev", "--getsize64", device], capture_output=True, text=True, check=True).stdout
    return int(said)


def mount(cluster: fleet.Fleet, entry: Mapping[str, Any]) -> None:
    """entry: of storage.json. Raises Unusable and what volume.attach raises."""
    where = str(entry["mount"])
    volume_id = _id(cluster, entry)
    device = link(volume_id)
    volume.attach(cluster, device, volume.Takeover(cluster, str(entry["parameter"]), volume_id))
    wait_for(device, int(entry["gib"]))
    NOTES.mkdir(parents=True, exist_ok=True)
    note(where).write_text(volume_id)
    found = blkid(device)
    if plan(found, volume_id, blank=bool(entry["blank"])) == "format":
        subprocess.run(["mkfs.ext4", "-q", "-m", "1", device], check=True)
        found = {"TYPE": "ext4"}
    kind = (found or {})["TYPE"]
    if not os.path.ismount(where):
        Path(where).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", kind, "-o", options(kind), device, where], check=True)
    command = None if entry.get("volume_id") else grow(kind, device, where)  # one that exists stays as it is
    if command:
        enlarge(command, where)


def enlarge(command: list[str], where: str) -> None:
    """A failure does not end the boot, for the files are there: an image may lack the program."""
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        log.warning("%s does not grow: %s", where, error)


def detach(where: str) -> None:
    """The cluster's role may no longer name a volume that existed before; its owner then detaches it."""
    if not note(where).exists():
        return
    volume_id = note(where).read_text()
    try:
        client("ec2").detach_volume(VolumeId=volume_id, InstanceId=imds.instance_id())
    except AWS_ERRORS as error:
        log.warning("%s is unmounted and not detached: %s", volume_id, error_code(error) or error)
    note(where).unlink()


def note(where: str) -> Path:
    return NOTES / where.strip("/").replace("/", "-")


def is_another(had: Path, volume_id: str) -> bool:
    """had: the note of the volume that was mounted last, if there is one."""
    return had.exists() and had.read_text() != volume_id


def _id(cluster: fleet.Fleet, entry: Mapping[str, Any]) -> str:
    return str(fleet.parameter(client("ssm"), cluster, str(entry["parameter"]))["volume_id"])


def main() -> None:
    start_logging()
    verb, where = sys.argv[1:3]
    if verb == "detach":
        detach(where)
        return
    entries = json.loads((fleet.BUNDLE / "storage.json").read_text())["mounts"]
    entry = next(each for each in entries if each["mount"] == where)
    if verb == "changed":
        sys.exit(0 if is_another(note(where), _id(fleet.load(), entry)) else 1)
    try:
        mount(fleet.load(), entry)
    except (Unusable, volume.NotOurs, TimeoutError, subprocess.CalledProcessError, *AWS_ERRORS) as error:
        print(f"{where}: {error}", file=sys.stderr)
        sys.exit(volume.NOT_OURS_STATUS if isinstance(error, volume.NotOurs) else 1)


if __name__ == "__main__":
    main()
