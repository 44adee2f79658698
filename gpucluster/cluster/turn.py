"""Whose turn it is to change a cluster: one run at a time of those that share a folder.

The CDK command line inherits the lock. So the lock is held until both have ended, also if a run was killed and CDK runs
on. Runs in other folders are told apart by their change sets (`gpucluster/cluster/deployment.py`).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.5


class Turn:
    """The lock of one cluster."""

    def __init__(self, state_folder: Path, cluster: str) -> None:
        self._file = state_folder / f"{cluster}.lock"
        self._descriptor: int | None = None

    @property
    def inherited(self) -> tuple[int, ...]:
        """For a program that must hold the lock too: what `subprocess` calls pass_fds."""
        return () if self._descriptor is None else (self._descriptor,)

    def says(self, who: str) -> None:
        """What the next run reads."""
        if self._descriptor is not None:
            os.truncate(self._descriptor, 0)
            os.pwrite(self._descriptor, who.encode(), 0)

    def holder(self) -> str:
        """Who is changing the cluster; empty if nobody of this folder is."""
        try:
            descriptor = os.open(self._file, os.O_RDWR)
        except OSError:  # nobody has taken it before, or the folder is another user's
            return ""
        try:
            return "" if _locked(descriptor) else _read(descriptor)
        except OSError:  # see _wait
            return ""
        finally:
            os.close(descriptor)

    @contextmanager
    def taken(self, verb: str, tell: Callable[[str], None]) -> Iterator[None]:
        """Waits until no other run holds the lock."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._wait(self._descriptor, tell)
            self.says(f"`gpucluster {verb}` (process {os.getpid()})")
            yield
        finally:
            os.close(self._descriptor)  # not LOCK_UN: that would unlock CDK's copy, too
            self._descriptor = None

    def _wait(self, descriptor: int, tell: Callable[[str], None]) -> None:
        """Some file systems have no locks, such as NFS without lockd. CloudFormation still tells two runs apart."""
        told = ""
        try:
            while not _locked(descriptor):
                who = _read(descriptor)
                if who != told:
                    tell(f"{who} is changing this cluster: waiting until it ends")
                    told = who
                time.sleep(POLL_S)
        except OSError as error:
            tell(f"{self._file} cannot be locked ({error.strerror}): let no other run change this cluster meanwhile")


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 1000, 0).decode(errors="replace") or "another run"


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
