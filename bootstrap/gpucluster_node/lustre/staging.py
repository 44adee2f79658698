"""A job's data before and after it: loads what it declares from S3 to Lustre, and exports its results.

usage: staging data-in | data-out | teardown JOB_ID SCRIPT UID GID. Slurm calls it through burst_buffer.lua, as root on
the head node. teardown is the last call for a job, however it ended. Lustre accepts requests to archive only from root.
The script belongs to the user, so this only touches files on a mounted Lustre file system, and writes to the job's
folder as the job's user. The last line on standard output is for Slurm.
"""

from __future__ import annotations

import json
import logging
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucluster_node import fleet, slurm
from gpucluster_node.log import start_logging
from gpucluster_node.lustre import directives, hsm, results, users
from gpucluster_node.lustre.transfer import Outcome, Transfer

log = logging.getLogger("staging")
TELL_EVERY_S = 5.0
WAIT_S = 2.0
END_WITHIN_S = 900.0
"""Slurm gives up on processes before that."""
LUSTRE = "fsx-lustre"


class StagingError(Exception):
    """Why a path cannot be staged at all."""


class MissingError(StagingError):
    """No file has that name."""


@dataclass(frozen=True)
class Job:
    job_id: str
    wanted: directives.Directives
    uid: int
    gid: int

    def keep(self, write: Callable[[Path], None]) -> None:
        """Writes to the job's folder as its user. If the folder is gone, the data is transferred all the same."""
        folder = self.wanted.folder
        if folder and not as_user(self.uid, self.gid, lambda: write(Path(folder))):
            log.warning("job %s: cannot write to its folder %s", self.job_id, folder)


def as_user(uid: int, gid: int, work: Callable[[], None]) -> bool:
    """Runs in a process with only this user's permissions. Returns whether it succeeded."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        except BaseException:
            log.exception("as user %d", uid)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def lustre_mounts(bundle: Path = fleet.BUNDLE) -> list[str]:
    mounts = json.loads((bundle / "storage.json").read_text())["mounts"]
    return [each["mount"] for each in mounts if each["type"] == LUSTRE]


def is_mounted(path: str, table: Path = Path("/proc/self/mounts")) -> bool:
    return any(line.split(" ")[1] == path for line in table.read_text().splitlines())


def checked(path: str, mounts: Sequence[str], is_mount: Callable[[str], bool] = is_mounted) -> str:
    """The path without links, on a Lustre file system that is mounted here. Raises StagingError."""
    real = os.path.realpath(path)
    mount = next((each for each in mounts if real == each or real.startswith(each + "/")), None)
    if mount is None:
        raise StagingError(
            f"{path} is not on a Lustre file system of this cluster, which has {', '.join(mounts) or 'none'}"
        )
    if not is_mount(mount):
        raise StagingError(
            f"{mount} is not mounted on the head node: `systemctl status {mount.strip('/')}.mount` there"
        )
    if not exists(real):
        raise MissingError(f"{path} does not exist")
    return real


def exists(path: str) -> bool:
    """Raises OSError if this is unknown: a file system that does not answer has not lost its files."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def files(path: str) -> Iterator[str]:
    """Every regular file at or below the path. Links are not followed, because they may lead to other users' files.

    Raises OSError.
    """
    return (each for each, mode in entries(path) if stat.S_ISREG(mode))


def entries(path: str) -> Iterator[tuple[str, int]]:
    """Everything at or below the path except folders, with its mode. Files deleted meanwhile are skipped. Raises
    OSError."""
    if not stat.S_ISDIR(mode := os.lstat(path).st_mode):
        yield path, mode
        return
    for folder, subfolders, names in os.walk(path, onerror=_unless_gone):
        for name in sorted([*names, *subfolders]):
            each = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(mode := os.lstat(each).st_mode):
                    yield each, mode


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def left_alone() -> bool:
    """Nobody reads this program's output: Slurm has ended its caller, because the job was cancelled."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def pause(seconds: float) -> None:
    time.sleep(seconds)
    if left_alone():
        sys.exit("the job was cancelled")


def teller(job: Job, stage: str, path: str) -> Callable[[int, int], None]:
    """Writes the progress to the job's folder, every few seconds and at the end."""
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if done in (0, total) or time.monotonic() - last >= TELL_EVERY_S:
            last = time.monotonic()
            log.info("job %s %s %s: %d of %d", job.job_id, stage, path, done, total)
            job.keep(lambda folder: results.progress(folder, stage, path, done, total))

    return tell


def moved(path: str, transfer: Transfer) -> Outcome:
    """Files that are deleted meanwhile are no failure."""
    outcome = transfer.of(list(files(path)))
    outcome.failed = {each: why for each, why in outcome.failed.items() if exists(each)}
    return outcome


def data_in(job: Job, mounts: Sequence[str]) -> str:
    """Returns the error, or ""."""
    for path in job.wanted.stage_in:
        try:
            real = checked(path, mounts)
        except StagingError as error:
            return str(error)
        tell = teller(job, "in", path)
        outcome = moved(real, Transfer("hsm_restore", lambda state: state.loaded, tell, sleep=pause))
        if outcome.failed:
            return results.sentence(path, outcome, "could not be loaded from S3")
    job.keep(results.progress_over)
    return ""


def file_systems(job: Job) -> list[users.FileSystem]:
    """The file systems in it with `lifetime: jobs`."""
    mounts = (each["mount"] for each in users.mounts())
    return [users.FileSystem.of(mount) for mount in mounts if job.wanted.names(mount)]


def wait_for(job: Job, file_system: users.FileSystem, pause: Callable[[float], None] = pause) -> None:
    """Waits until it exists, which takes minutes for the first job that uses it."""
    reported, parts = None, slurm.parts(job.job_id)
    file_system.register(job.job_id, parts)
    while (state := file_system.state()).phase != "ready":
        if reported != state.reason:
            reported = state.reason
            job.keep(lambda folder: results.waits_for(folder, file_system.mount, state.reason))
        try:
            pause(WAIT_S)
        except SystemExit:
            file_system.leave({job.job_id})
            raise
        file_system.register(job.job_id, parts)
    file_system.tell_nodes(job.job_id, state)


def wait_for_end(job_id: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Waits until the job's processes have ended: Slurm calls when it starts to end them, and they may still write."""
    until = time.monotonic() + END_WITHIN_S
    while slurm.state(job_id) == "COMPLETING" and time.monotonic() < until:
        sleep(WAIT_S)


def data_out(job: Job, mounts: Sequence[str]) -> str:
    """Tries every path, even after an error. Returns the error, or ""."""
    exports = [_exported(job, path, mounts) for path in job.wanted.stage_out]
    if not exports:
        return ""
    job.keep(lambda folder: results.write(folder, job.job_id, exports))
    return "; ".join(each.reason for each in exports if each.reason)


def _exported(job: Job, path: str, mounts: Sequence[str]) -> results.Export:
    try:
        real = checked(path, mounts)
    except StagingError as error:
        return results.Export(path, Outcome(), str(error))
    tell = teller(job, "out", path)
    # a cancelled job has results too: this continues, even if nobody reads the output
    outcome = moved(real, Transfer("hsm_archive", lambda state: state.exported, tell))
    return results.Export(path, outcome, results.sentence(path, outcome, "did not reach S3") if outcome.failed else "")


def run(verb: str, job: Job) -> str:
    """Returns the error, or ""."""
    if verb == "data-in":
        for file_system in file_systems(job):
            wait_for(job, file_system)
        return unknown(job, lustre_mounts()) or data_in(job, lustre_mounts())
    wait_for_end(job.job_id)
    if verb == "data-out":
        return data_out(job, lustre_mounts())
    # For all file systems: a cancelled job may have lost its script by now.
    for each in users.mounts():
        users.FileSystem.of(each["mount"]).leave({job.job_id})
    return ""


def unknown(job: Job, mounts: Sequence[str]) -> str:
    """What is wrong with the file systems that it names, or ""."""
    wrong = [path for path in job.wanted.use if not any(path == each or path.startswith(f"{each}/") for each in mounts)]
    has = ", ".join(mounts) or "none"
    return f"{wrong[0]} is not on a Lustre file system of this cluster, which has {has}" if wrong else ""


def main() -> None:
    start_logging()
    verb, job_id, script, uid, gid = sys.argv[1:]
    try:
        wanted = directives.parse(Path(script).read_text(errors="surrogateescape"))
    except FileNotFoundError:
        if verb != "teardown":
            raise
        wanted = directives.Directives()
    job = Job(job_id, wanted, int(uid), int(gid))
    try:
        said = run(verb, job)
    except (OSError, hsm.LfsError, slurm.SlurmError) as error:
        said = f"{type(error).__name__}: {error}"
    if said:
        log.error("job %s %s: %s", job_id, verb, said)
        print(said.encode(errors="replace").decode())
        sys.exit(1)


if __name__ == "__main__":
    main()
