"""Ends and removes whatever a dead cloud of a state directory still owns.

Everything that a cloud creates carries its id or is in its state directory, so this depends on no record of the cloud.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from localcloud.machines import cgroups, nspawn, ownership
from localcloud.machines.networks import firewall
from localcloud.machines.processes import MachineError, run
from localcloud.machines.volumes import loops_below

NETNS_FOLDER = Path("/run/netns")
LINKS_FOLDER = Path("/sys/class/net")


def clean(state_dir: Path) -> list[str]:
    """Removes everything; returns a phrase for each removed thing. Harmless if nothing is left.

    Only for a cloud whose server is dead: a live one would lose its machines.
    """
    cloud_id = ownership.owner(state_dir)
    removed = list(_end(cloud_id)) if cloud_id else []
    removed.extend(_unmount(state_dir))
    removed.extend(_detach(state_dir))
    if cloud_id:
        removed.extend(_remove_network(cloud_id))
        if cgroups.remove(ownership.cgroup(cloud_id)):
            removed.append(f"control group {ownership.cgroup(cloud_id)}")
    for machine in (state_dir / "machines").glob("i-*"):
        nspawn.forget(machine.name)
    for folder in ("machines", "volumes", "network", "images", "filesystems"):
        shutil.rmtree(state_dir / folder, ignore_errors=True)
    ownership.release(state_dir)
    return removed


def found(state_dir: Path) -> list[str]:
    """What `clean` would remove."""
    cloud_id = ownership.owner(state_dir)
    mounts = [f"mount {path}" for path in mounts_below(state_dir, Path("/proc/self/mountinfo").read_text())]
    loops = [f"loop device {loop}" for loop in loops_below(state_dir)]
    if cloud_id is None:
        return mounts + loops
    processes = [f"process {pid}" for pid in cgroups.pids(ownership.cgroup(cloud_id))]
    names = [f"network namespace {name}" for name in _names(NETNS_FOLDER, cloud_id)]
    links = [f"network link {name}" for name in _names(LINKS_FOLDER, cloud_id)]
    groups = [f"control group {root / ownership.cgroup(cloud_id)}" for root in cgroups.hierarchies()]
    return processes + mounts + loops + names + links + [group for group in groups if Path(group[14:]).exists()]


def mounts_below(folder: Path, mountinfo: str) -> list[str]:
    """Mount points below `folder`, the deepest first, from the text of /proc/self/mountinfo."""
    points = (_unescape(line.split()[4]) for line in mountinfo.splitlines())
    below = {point for point in points if Path(point).is_relative_to(folder)}
    return sorted(below, key=lambda point: (-point.count("/"), point))


def _unescape(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _end(cloud_id: str) -> Iterator[str]:
    killed = cgroups.kill(ownership.cgroup(cloud_id))
    if killed:
        yield f"{len(killed)} processes"


def _unmount(state_dir: Path) -> Iterator[str]:
    for point in mounts_below(state_dir, Path("/proc/self/mountinfo").read_text()):
        run(["umount", "--lazy", point], check=False)
        yield f"mount {point}"


def _detach(state_dir: Path) -> Iterator[str]:
    for loop in loops_below(state_dir):
        run(["losetup", "--detach", loop], check=False)
        yield f"loop device {loop}"


def _remove_network(cloud_id: str) -> Iterator[str]:
    for name in _names(LINKS_FOLDER, cloud_id):
        run(["ip", "link", "del", name], check=False)
        yield f"network link {name}"
    for name in _names(NETNS_FOLDER, cloud_id):
        run(["ip", "netns", "del", name], check=False)
        yield f"network namespace {name}"
    with contextlib.suppress(MachineError):
        run(["nft", "delete", "table", "ip", firewall.host_table(cloud_id)])
        yield f"nft table {firewall.host_table(cloud_id)}"


def _names(folder: Path, cloud_id: str) -> list[str]:
    if not folder.is_dir():
        return []
    own = f"lc-{cloud_id}"
    return sorted(path.name for path in folder.iterdir() if path.name == own or path.name.startswith(f"{own}-"))
