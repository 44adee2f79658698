"""Attaches a directory of one mount namespace at a directory of another.

A separate program, because a process with threads cannot change its mount namespace. Standard library only, so that it
starts fast: python3 -I -S graft.py FROM_PID PATH TO_PID TARGET [ro]
"""

from __future__ import annotations

import ctypes
import os
import sys

SYS_OPEN_TREE = 428
SYS_MOVE_MOUNT = 429
SYS_MOUNT_SETATTR = 442
AT_FDCWD = -100
OPEN_TREE_CLONE = 1
MOVE_MOUNT_F_EMPTY_PATH = 4
AT_EMPTY_PATH = 0x1000
MOUNT_ATTR_RDONLY = 1
CLONE_NEWNS = 0x00020000

_libc = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def graft(from_pid: int, path: str, to_pid: int, target: str, *, read_only: bool = False) -> None:
    destination = os.open(f"/proc/{to_pid}/ns/mnt", os.O_RDONLY)
    _enter(os.open(f"/proc/{from_pid}/ns/mnt", os.O_RDONLY))
    tree = _check(_libc.syscall(SYS_OPEN_TREE, AT_FDCWD, path.encode(), OPEN_TREE_CLONE | os.O_CLOEXEC), path)
    if read_only:
        wanted = MountAttributes(attr_set=MOUNT_ATTR_RDONLY)
        size = ctypes.sizeof(wanted)
        _check(_libc.syscall(SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(wanted), size), path)
    _enter(destination)
    _check(_libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH), target)


def _enter(namespace: int) -> None:
    _check(_libc.setns(namespace, CLONE_NEWNS), "mount namespace")


def _check(result: int, subject: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), subject)
    return result


if __name__ == "__main__":
    try:
        graft(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], read_only="ro" in sys.argv[5:])
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
