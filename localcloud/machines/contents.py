"""Copies of volumes' contents."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcloud.machines.processes import run

_FREEZE, _THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW of <linux/fs.h>


def copy(source: Path, target: Path) -> None:
    """Appears at once, when it is complete. Holes stay holes."""
    unfinished = target.with_suffix(".new")
    run(["cp", "--sparse=always", str(source), str(unfinished)])
    unfinished.rename(target)


@contextmanager
def frozen(leader: int, device: Path) -> Iterator[None]:
    """The device's file system, if the guest of `leader` has mounted it: all that was written is on the device, and
    further writes wait."""
    place = _mounted_at(leader, os.stat(device).st_rdev)
    if place is None:
        yield
        return
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(directory, _FREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(directory, _THAW, 0)
    finally:
        os.close(directory)


def _mounted_at(leader: int, device: int) -> Path | None:
    """man 5 proc: the third field is major:minor, the fifth the mount point."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path(f"/proc/{leader}/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == number and os.path.isdir(place := f"/proc/{leader}/root{fields[4]}"):
            return Path(place)
    return None
