"""Where jobs find room on this node's own disks, and what lies there."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

MOUNT = Path("/scratch")
ON_ROOT = Path("/var/lib/gpucluster/scratch")
"""Of a node without disks of its own, or whose partition leaves them alone."""
TOLD = Path("/etc/gpucluster/scratch")
"""A file with the path, for every program that needs it."""
JOBS, CACHE, CONTAINERS = "jobs", "cache", "containers"
KEPT = (JOBS, CACHE, CONTAINERS, "lost+found")
"""What the end of the last job leaves: the data sets, and the images that enroot unpacks them from."""


def place(told: Path = TOLD) -> Path:
    """As `tell` has left it."""
    try:
        return Path(told.read_text().strip())
    except FileNotFoundError:
        return ON_ROOT


def tell(path: Path, told: Path = TOLD) -> None:
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(f"{path}\n")


def lay_out(path: Path, user: str) -> None:
    """As /tmp: every user may write there, and delete their own files. The cache is the jobs' user's."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o1777)
    for name, mode in ((JOBS, 0o755), (CACHE, 0o755), (CONTAINERS, 0o1777)):
        (path / name).mkdir(exist_ok=True)
        (path / name).chmod(mode)
    account = pwd.getpwnam(user)
    os.chown(path / CACHE, account.pw_uid, account.pw_gid)


def of_jobs(path: Path) -> list[Path]:
    """All but what is kept."""
    return [Path(entry.path) for entry in os.scandir(path) if entry.name not in KEPT]


def empty(path: Path) -> list[str]:
    """Removes all but what is kept; the names that could not be removed. What is mounted there is not followed."""
    device = path.stat().st_dev
    return [each.name for each in of_jobs(path) if not remove(each, device)]


def remove(path: Path, device: int) -> bool:
    """A file or a folder with all that is in it, on this device; whether it is gone."""
    try:
        status = path.lstat()
        if status.st_dev != device:
            return False
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    except OSError:
        pass  # looked at below
    return not os.path.lexists(path)
