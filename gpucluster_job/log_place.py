"""`output`, the second place of the job's log: a link to log.txt while the job runs, and a copy of it afterwards.

Slurm itself writes log.txt, where `gpucluster logs` and result.json read it. Patterns as sbatch's: `fname_create` in
slurmstepd/fname.c of Slurm; gpucluster/job/log_place.py refuses all others.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
from contextlib import suppress
from typing import Callable, Match

from gpucluster_job.log import say
from gpucluster_job.settings import Settings

VARIABLE = "GPUCLUSTER_OUTPUT"
MOST_DIGITS = 10
"""MAX_WIDTH in fname.c: sbatch pads to no more digits."""


class LogPlace:
    def __init__(self, settings: Settings) -> None:
        self._log, self._pattern, self._path = str(settings.log), os.environ.get(VARIABLE, ""), ""
        self._new = f".gpucluster-{settings.job_id}.new"

    def begin(self) -> None:
        """From now on the path shows the log as it grows. It replaces a file that is there, as sbatch empties it: an
        earlier run of this job may have left it."""
        if not self._pattern:
            return
        try:
            # sbatch's relative paths begin in the folder of the submission, which the cluster does not have
            path = os.path.join(os.path.expanduser("~"), filled_in(self._pattern))
        except KeyError as missing:
            self._warn(self._pattern, f"has no value on this node: {missing.args[0]}")
            return
        if self._attempt(path, self._link):
            self._path = path

    def end(self) -> None:
        """The copy stays if the job's folder is deleted. If Slurm kills this process meanwhile, the link stays."""
        if self._path and self._is_our_link(self._path):
            self._attempt(self._path, self._copy)

    def _is_our_link(self, path: str) -> bool:
        """Otherwise another job that started later has the path, or a user has removed the link."""
        try:
            return os.readlink(path) == self._log
        except OSError:
            return False

    def _link(self, path: str) -> None:
        folder = os.path.dirname(path)
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        if os.path.join(os.path.realpath(folder), os.path.basename(path)) == os.path.realpath(self._log):
            return  # it names log.txt itself, for example through ~/jobs/by-id
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileExistsError(errno.EEXIST, "exists and is not a file")
        self._put(path, lambda new: os.symlink(self._log, new))

    def _copy(self, path: str) -> None:
        def copy(new: str) -> None:
            with open(self._log, "rb") as log, open(new, "xb") as file:
                shutil.copyfileobj(log, file)
                file.flush()
                os.fsync(file.fileno())  # NFS and ext4 may say only now that the file system is full

        self._put(path, copy)

    def _put(self, path: str, make: Callable[[str], None]) -> None:
        """In one step, so that there is always a log at the path."""
        new = os.path.join(os.path.dirname(path), self._new)
        with suppress(FileNotFoundError):
            os.unlink(new)  # of a run that was killed
        try:
            make(new)
            os.replace(new, path)
        finally:
            with suppress(OSError):
                os.unlink(new)

    def _attempt(self, path: str, write: Callable[[str], None]) -> bool:
        """The second place is a convenience: without it the job continues, and has the same result."""
        try:
            write(path)
        except OSError as error:
            self._warn(path, str(error.strerror))
            return False
        return True

    def _warn(self, path: str, why: str) -> None:
        say(f"warning: output: {path}: {why}; the log is only in {self._log}")


def filled_in(pattern: str) -> str:
    return re.sub(r"%(\d*)(.)", _value, pattern)


def _value(match: Match[str]) -> str:
    environ, symbol, digits = os.environ, match[2], min(int(match[1] or 0), MOST_DIGITS)
    if symbol == "%":
        return "%"
    if symbol == "x":
        return environ["SLURM_JOB_NAME"]
    if symbol == "u":
        return pwd.getpwuid(os.getuid()).pw_name
    if symbol == "N":
        return environ["SLURMD_NODENAME"]
    job_id = environ["SLURM_JOB_ID"]
    numbers = {"j": job_id, "A": environ.get("SLURM_ARRAY_JOB_ID", job_id), "a": environ.get("SLURM_ARRAY_TASK_ID", "")}
    return numbers[symbol].zfill(digits)
