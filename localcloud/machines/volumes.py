"""EBS volumes and instance store: a sparse file behind a loop device, shown in the guest like an NVMe disk on EC2.

An instance's own disks are attachments like volumes, with a serial number instead of a volume's id. They are created
with the instance, and their content is deleted when it stops.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from localcloud.machines import contents
from localcloud.machines.processes import MachineError, run

GIB, GB = 1 << 30, 10**9
_FIRST_DISK = 1  # nvme0 is the root disk's name
_FIRST_OWN = 11  # a share of another guest's volume that is mounted here must not count as one of these


@dataclass(frozen=True)
class Attachment:
    instance_id: str
    volume_id: str  # or the serial number of a disk of the instance's own
    device: str  # the API caller's name for it, /dev/sdf; "" for the instance's own
    disk: str  # the guest kernel's name for it, nvme1n1
    loop: Path


def by_id_name(volume_id: str) -> str:
    """udev's name from model and serial number; a volume's serial number is its id without the dash."""
    model = "Amazon_Elastic_Block_Store" if volume_id.startswith("vol-") else "Amazon_EC2_NVMe_Instance_Storage"
    return f"nvme-{model}_{volume_id.replace('-', '')}"


def serial_number(instance_id: str, index: int) -> str:
    return f"AWS{hashlib.sha256(f'{instance_id}/{index}'.encode()).hexdigest()[:17].upper()}"


def links(attachment: Attachment) -> dict[str, str]:
    """Path in the guest's /dev -> target of the link."""
    own_name = {attachment.device.removeprefix("/dev/"): attachment.disk} if attachment.device else {}
    return {f"disk/by-id/{by_id_name(attachment.volume_id)}": f"../../{attachment.disk}", **own_name}


class Volumes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._attached: dict[str, Attachment] = {}
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def attach(self, instance_id: str, leader: int | None, volume_id: str, size_gib: int, device: str) -> None:
        """Shows the disk in the guest; if the guest is not running (`leader` None), `show_again` does so later."""
        with self._lock:
            if held := self._attached.get(volume_id):
                if held.instance_id != instance_id:
                    raise MachineError(f"volume {volume_id} is attached to {held.instance_id}")
                if leader is not None:
                    _show(held, Path(f"/proc/{leader}/root/dev"))
                return
            loop = self._loop(volume_id, size_gib * GIB)
            attachment = Attachment(instance_id, volume_id, device, self._free_disk(instance_id), loop)
            try:
                if leader is not None:
                    _show(attachment, Path(f"/proc/{leader}/root/dev"))
            except OSError:  # the guest has ended meanwhile
                run(["losetup", "--detach", str(loop)], check=False)
                raise
            self._attached[volume_id] = attachment

    def furnish(self, instance_id: str, sizes_gb: Sequence[int]) -> None:
        """The instance's own disks, blank; existing ones are kept. `show_again` shows them."""
        with self._lock:
            for index, size_gb in enumerate(sizes_gb):
                serial = serial_number(instance_id, index)
                if serial not in self._attached:
                    disk, loop = self._free_disk(instance_id, _FIRST_OWN), self._loop(serial, size_gb * GB)
                    self._attached[serial] = Attachment(instance_id, serial, "", disk, loop)

    def strip(self, instance_id: str) -> None:
        """Deletes the disks from `furnish` with their contents."""
        with self._lock:
            own = [a.volume_id for a in self._attached.values() if a.instance_id == instance_id and not a.device]
        for serial in own:
            self.delete(serial)

    def _loop(self, volume_id: str, size: int) -> Path:
        path = self._folder / volume_id
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(size)
        # Another guest may still have a file system of the disk mounted (NFS), so a disk always has only one loop
        # device.
        return Path(run(["losetup", "--find", "--show", "--nooverlap", str(path)]).strip())

    def _free_disk(self, instance_id: str, first: int = _FIRST_DISK) -> str:
        used = {a.disk for a in self._attached.values() if a.instance_id == instance_id}
        number = first
        while f"nvme{number}n1" in used:
            number += 1
        return f"nvme{number}n1"

    def grow(self, volume_id: str, size_gib: int) -> None:
        """The guest sees it at once. A disk that no guest has had yet has no file to enlarge."""
        with self._lock:
            path = self._folder / volume_id
            if not path.exists():
                return
            os.truncate(path, size_gib * GIB)
            if volume_id in self._attached:
                run(["losetup", "--set-capacity", str(self._attached[volume_id].loop)])

    def snapshot(self, volume_id: str, snapshot_id: str, leader: int | None) -> None:
        """The snapshot is a file beside the volumes. A volume that no guest has had yet has no content."""
        attachment, path = self._attached.get(volume_id), self._folder / volume_id
        if path.exists():
            with contents.frozen(leader, attachment.loop) if leader and attachment else nullcontext():
                contents.copy(path, self._folder / snapshot_id)

    def restore(self, snapshot_id: str, volume_id: str, size_gib: int) -> None:
        if (self._folder / snapshot_id).exists():
            contents.copy(self._folder / snapshot_id, self._folder / volume_id)
            os.truncate(self._folder / volume_id, size_gib * GIB)

    def detach(self, volume_id: str, leader: int | None = None) -> None:
        """Removes the disk from the guest. A mounted file system stays until it is unmounted."""
        with self._lock:
            attachment = self._attached.pop(volume_id, None)
            if attachment is None:
                return
            if leader is not None:
                _hide(attachment, Path(f"/proc/{leader}/root/dev"))
            run(["losetup", "--detach", str(attachment.loop)], check=False)

    def show_again(self, instance_id: str, leader: int) -> None:
        """After a boot, which creates a new /dev."""
        with self._lock:
            for attachment in self._attached.values():
                if attachment.instance_id == instance_id:
                    _show(attachment, Path(f"/proc/{leader}/root/dev"))

    def detach_all(self, instance_id: str) -> None:
        with self._lock:
            own = [each.volume_id for each in self._attached.values() if each.instance_id == instance_id]
        for volume_id in own:
            self.detach(volume_id)

    def instance_of(self, volume_id: str) -> str | None:
        attachment = self._attached.get(volume_id)
        return attachment.instance_id if attachment else None

    def delete(self, volume_id: str) -> None:
        self.detach(volume_id)
        (self._folder / volume_id).unlink(missing_ok=True)


def _show(attachment: Attachment, dev: Path) -> None:
    node, number = dev / attachment.disk, os.stat(attachment.loop).st_rdev
    if not (node.is_block_device() and node.stat().st_rdev == number):  # otherwise it exists and may be in use
        node.unlink(missing_ok=True)
        os.mknod(node, stat.S_IFBLK | 0o660, number)
    for name, target in links(attachment).items():
        link = dev / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _hide(attachment: Attachment, dev: Path) -> None:
    for name in (*links(attachment), attachment.disk):
        (dev / name).unlink(missing_ok=True)


def loops_below(folder: Path) -> list[str]:
    """Loop devices whose file is (or was) in `folder`."""
    listed = json.loads(run(["losetup", "--json", "--list", "--output", "NAME,BACK-FILE"]) or '{"loopdevices": []}')
    return [row["name"] for row in listed["loopdevices"] if _below(row["back-file"], folder)]


def _below(backing: str | None, folder: Path) -> bool:
    return backing is not None and Path(backing.removesuffix(" (deleted)")).is_relative_to(folder)
