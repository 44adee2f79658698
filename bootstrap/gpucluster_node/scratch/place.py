"""The folder on this node's own disks that jobs use, and the folders in it."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

MOUNT = Path("/scratch")
ON_ROOT = Path("/var/lib/gpucluster/scratch")
"""Used if the node has no disks of its own, or if its partition does not use them."""
PATH_FILE = Path("/etc/gpucluster/scratch")
"""This file has the folder's path, for every program that needs it."""
JOBS, CACHE, CONTAINERS = "jobs", "cache", "containers"
KEPT = (JOBS, CACHE, CONTAINERS, "lost+found")
"""These folders stay after the last job, with its data sets and container images."""


def place(path_file: Path = PATH_FILE) -> Path:
    """The path that `write_path` has written."""
    try:
        return Path(path_file.read_text().strip())
    except FileNotFoundError:
        return ON_ROOT


def write_path(path: Path, path_file: Path = PATH_FILE) -> None:
    path_file.parent.mkdir(parents=True, exist_ok=True)
    path_file.write_text(f"{path}\n")


def lay_out(path: Path, user: str) -> None:
    """As in /tmp, every user may write there and delete their own files. The cache belongs to the jobs' user."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o1777)
    for name, mode in ((JOBS, 0o755), (CACHE, 0o755), (CONTAINERS, 0o1777)):
        (path / name).mkdir(exist_ok=True)
        (path / name).chmod(mode)
    account = pwd.getpwnam(user)
    os.chown(path / CACHE, account.pw_uid, account.pw_gid)


def of_jobs(path: Path) -> list[Path]:
    """Everything except the kept folders."""
    return [Path(entry.path) for entry in os.scandir(path) if entry.name not in KEPT]


def empty(path: Path) -> list[str]:
    """Removes everything except the kept folders and mounts; returns the names that could not be removed."""
    device = path.stat().st_dev
    return [each.name for each in of_jobs(path) if not remove(each, device)]


def remove(path: Path, device: int) -> bool:
    """Removes a file or a folder with its contents on this device; returns whether it is gone."""
    try:
        status = path.lstat()
        if status.st_dev != device:
            return False
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    except OSError:
        pass  # the next line checks
    return not os.path.lexists(path)
