"""Creates one file system at /scratch from this instance's own NVMe disks, at each boot.

usage: scratch_disks GIGABYTES USER     GIGABYTES: all disks of the instance type together, 10^9 bytes

Disks are recognised by the name that udev derives from model and serial number, because EBS volumes have another model.
An existing file system of GpuCluster is mounted. Volumes that the image created on the disks, as a Deep Learning AMI
does, are removed, unless the image mounts them elsewhere.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpucluster_node.log import start_logging
from gpucluster_node.scratch import jobs
from gpucluster_node.scratch import place as scratch_place

log = logging.getLogger("scratch")

BY_ID = Path("/dev/disk/by-id")
INSTANCE_STORE = re.compile(r"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS[0-9A-F]+")
ARRAY = Path("/dev/md/scratch")
LABEL = "gpu-scratch"
DEEP_LEARNING_AMI = "/opt/dlami/nvme"
IMAGES_SERVICE = "dlami-nvme.service"
"""The service of a Deep Learning AMI that combines all disks into a logical volume and mounts it there."""
SINCE_BOOT = Path("/run/gpucluster/scratch")
"""This file exists until the next boot. It shows that the program has run before, so jobs may be running."""
ALL_THERE = 0.9
"""The disks must have at least this share of the type's size, which EC2 rounds to gigabytes."""
TIMEOUT_S = 60
CHUNK_KIB = 512
MKFS = (
    "mkfs.ext4",
    "-q",
    "-F",
    "-L",
    LABEL,
    "-m",
    "0",
    "-i",
    "65536",
    "-E",
    "nodiscard,lazy_itable_init=1,lazy_journal_init=1",
)
"""One inode for 64 KiB: 60 million on 3.8 TB. EC2 provides these disks trimmed."""
OPTIONS = "noatime,noinit_itable"
"""noinit_itable: the kernel does not write empty inode tables in the background."""


class Unusable(Exception):
    """The disks cannot be used; the message says why."""


def disks() -> list[Path]:
    """Whole devices; udev gives some a second name, for the namespace."""
    names = sorted(BY_ID.iterdir()) if BY_ID.is_dir() else []
    return sorted({name.resolve() for name in names if INSTANCE_STORE.fullmatch(name.name) and name.exists()})


def await_disks(gigabytes: int, timeout_s: float = TIMEOUT_S) -> list[Path]:
    """Waits until all disks have appeared. Raises Unusable."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = disks()
        size = sum(int(ask("blockdev", "--getsize64", str(disk)) or 0) for disk in found)
        if size >= gigabytes * 10**9 * ALL_THERE:
            return found
        if time.monotonic() > deadline:
            raise Unusable(
                f"{len(found)} NVMe instance store disks with {size / 1e9:.0f} GB were found, the instance type has "
                f"{gigabytes} GB: this instance is broken, Slurm will replace it"
            )
        time.sleep(1)


def ask(*command: str) -> str:
    """The program's output; nothing if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def do(*command: str) -> None:
    """Raises Unusable."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unusable(f"{command[0]} is not on this machine") from error
    log.info("%s: %s", " ".join(command), done.returncode)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        what = said[-1].removeprefix(f"{command[0]}: ") if said else f"exit code {done.returncode}"
        raise Unusable(f"{command[0]}: {what}")


def assembled(members: Sequence[Path]) -> Path | None:
    """Our array of these disks: udev may have assembled it already, under this name or another."""
    if not ARRAY.exists():
        ask("mdadm", "--assemble", "--run", str(ARRAY), *map(str, members))
    return ARRAY if ARRAY.exists() else None


def striped(members: Sequence[Path]) -> Path:
    """Creates an array. Raises Unusable."""
    # homehost=any: the array is found at the next boot, whatever the machine's name is then.
    options = ("--run", "--level=0", f"--chunk={CHUNK_KIB}", "--homehost=any", "--name=scratch")
    do("mdadm", "--create", str(ARRAY), *options, f"--raid-devices={len(members)}", *map(str, members))
    ask("udevadm", "settle")
    return ARRAY


def is_ours(device: Path) -> bool:
    return ask("blkid", "-p", "-s", "LABEL", "-o", "value", str(device)) == LABEL


def make(members: Sequence[Path]) -> Path:
    """A device with our file system: the existing one, or a new, empty one. Raises Unusable."""
    device = members[0] if len(members) == 1 else assembled(members)
    if device is None or not is_ours(device):
        if device is None or len(members) == 1:
            clear(members)
        device = device or striped(members)
        do(*MKFS, str(device))
    return device


def clear(members: Sequence[Path]) -> None:
    """Removes volumes and arrays that the image has made of these disks. Raises Unusable."""
    for line in sorted({each for disk in members for each in ask("lsblk", "-nrpo", "MOUNTPOINT", str(disk)).split()}):
        if line != DEEP_LEARNING_AMI:
            raise Unusable(
                f"this image has mounted NVMe disks at {line}: unmount them in the image, or set `scratch: off`"
            )
        do("umount", line)
    for group in sorted(_groups(members)):
        do("vgremove", "--force", "--force", "--yes", group)
    for array in {each.name for disk in members for each in Path(f"/sys/class/block/{disk.name}/holders").glob("md*")}:
        do("mdadm", "--stop", f"/dev/{array}")
    for disk in members:
        do("wipefs", "--all", "--quiet", str(disk))


def _groups(members: Sequence[Path]) -> set[str]:
    """Volume groups on these disks. Raises Unusable for one that is also on another disk."""
    rows = [row.split() for row in ask("pvs", "--noheadings", "-o", "pv_name,vg_name").splitlines()]
    volumes = {row[0]: row[1] for row in rows if len(row) == 2}
    ours = {group for disk, group in volumes.items() if Path(disk) in members}
    for disk, group in volumes.items():
        if group in ours and Path(disk) not in members:
            raise Unusable(
                f"the volume group {group} is on {disk} as well, which is not one of the instance's own disks"
            )
    return ours


def silence_image() -> None:
    """The image's own service would use the disks again. A running one is waited for."""
    if ask("systemctl", "is-enabled", IMAGES_SERVICE) != "enabled":
        return
    for _ in range(TIMEOUT_S):
        if ask("systemctl", "show", "--property=ActiveState", "--value", IMAGES_SERVICE) != "activating":
            break
        time.sleep(1)
    do("systemctl", "--quiet", "disable", IMAGES_SERVICE)


def mount(device: Path) -> None:
    """Raises Unusable."""
    scratch_place.MOUNT.mkdir(exist_ok=True)
    command = ("mount", "-t", "ext4", "-o", OPTIONS, str(device), str(scratch_place.MOUNT))
    try:
        do(*command)
    except Unusable as error:
        # Left by a machine that lost its power. The file system has no only copies.
        log.warning("%s: creating the file system again", error)
        do(*MKFS, str(device))
        do(*command)


def lead_to(place: Path, other: Path = Path(DEEP_LEARNING_AMI)) -> None:
    """Makes the disks available where users expect them on this image."""
    if other.is_dir() and not os.path.ismount(other):
        do("mount", "--bind", str(place), str(other))


def prepare(gigabytes: int) -> Path:
    """Returns the folder for jobs: /scratch, or one on the root volume if there are no disks. Raises Unusable."""
    if gigabytes == 0:
        return scratch_place.ON_ROOT
    if not os.path.ismount(scratch_place.MOUNT):
        members = await_disks(gigabytes)
        silence_image()
        mount(make(members))
        lead_to(scratch_place.MOUNT)
    return scratch_place.MOUNT


def settle(place: Path, user: str) -> None:
    scratch_place.lay_out(place, user)
    scratch_place.write_path(place)


def main() -> None:
    start_logging()
    gigabytes, user = int(sys.argv[1]), sys.argv[2]
    try:
        place = prepare(gigabytes)
    except Unusable as error:
        # It ends a node's first boot. After a later boot slurmd starts all the same, and no job must use a bare folder
        # instead of the disks.
        settle(scratch_place.ON_ROOT, user)
        sys.exit(str(error))
    settle(place, user)
    left = [] if SINCE_BOOT.exists() else jobs.boot(place)
    SINCE_BOOT.parent.mkdir(exist_ok=True)
    SINCE_BOOT.touch()
    log.info("%s: %.0f GB free%s", place, shutil.disk_usage(place).free / 1e9, f", left: {left}" if left else "")


if __name__ == "__main__":
    main()
