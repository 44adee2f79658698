"""The kernel's limit on inotify instances, which all guests of this machine share."""

from __future__ import annotations

from pathlib import Path

MOST = 8192
"""A guest's systemd and services have about nine. With the kernel's default of 128, the fifteenth guest ends with
"Failed to create control group inotify object: Too many open files"."""
_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")


def allow_many(limit: Path = _LIMIT) -> None:
    """Raises the limit if it is lower. It stays when the cloud ends: other clouds may need it."""
    if int(limit.read_text()) < MOST:
        limit.write_text(f"{MOST}\n")
