"""The data of a job, before and after it: loads what it declares from S3 to Lustre, and exports what it has written.

usage: staging data-in | data-out | teardown JOB_ID SCRIPT UID GID, called by Slurm through burst_buffer.lua, as root on
the head. teardown is the last that a job has, whatever became of it.
Lustre takes requests to archive from root only. The script is the user's: only files below a mounted Lustre file system
are touched, and the job's folder is written to as the job's user. The last line on standard output is for Slurm.
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
from dataclasses import dataclass
from pathlib import Path

from gpucluster_node import directives, fleet, hsm, lustre_users, slurm, verdict
from gpucluster_node.log import start_logging
from gpucluster_node.transfer import Outcome, Transfer

log = logging.getLogger("staging")
TELL_EVERY_S = 5.0
WAIT_S = 2.0
LUSTRE = "fsx-lustre"


class StagingError(Exception):
    """What keeps a path from being staged at all."""


class MissingError(StagingError):
    """There is nothing of that name."""


@dataclass(frozen=True)
class Job:
    job_id: str
    wanted: directives.Directives
    uid: int
    gid: int

    def keep(self, write: Callable[[Path], None]) -> None:
        """In the job's folder, as its user. A folder that is gone costs nobody the data."""
        folder = self.wanted.folder
        if folder and not as_user(self.uid, self.gid, lambda: write(Path(folder))):
            log.warning("job %s: its folder %s cannot be written to", self.job_id, folder)


def as_user(uid: int, gid: int, work: Callable[[], None]) -> bool:
    """In a process that has this user's permissions alone. Whether it went well."""
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
    """The path without links in it, below a Lustre file system that is mounted here. Raises StagingError."""
    real = os.path.realpath(path)
    mount = next((each for each in mounts if real == each or real.startswith(each + "/")), None)
    if mount is None:
        raise StagingError(
            f"{path} is on no Lustre file system of this cluster, which has {', '.join(mounts) or 'none'}"
        )
    if not is_mount(mount):
        raise StagingError(
            f"{mount} is not mounted on the head node: `systemctl status {mount.strip('/')}.mount` there"
        )
    if not os.path.lexists(real):
        raise MissingError(f"{path} does not exist")
    return real


def files(path: str) -> Iterator[str]:
    """Every regular file at or below it. Links are not followed: what they lead to is somebody else's."""
    if stat.S_ISREG(os.lstat(path).st_mode):
        yield path
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            each = os.path.join(folder, name)
            try:
                if stat.S_ISREG(os.lstat(each).st_mode):
                    yield each
            except FileNotFoundError:
                continue


def left_alone() -> bool:
    """Nobody reads what this program says: Slurm has ended its caller, because the job was cancelled."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def pause(seconds: float) -> None:
    time.sleep(seconds)
    if left_alone():
        sys.exit("the job was cancelled")


def teller(job: Job, stage: str, path: str) -> Callable[[int, int], None]:
    """Keeps the progress in the job's folder, every few seconds and at the end."""
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if done in (0, total) or time.monotonic() - last >= TELL_EVERY_S:
            last = time.monotonic()
            log.info("job %s %s %s: %d of %d", job.job_id, stage, path, done, total)
            job.keep(lambda folder: verdict.progress(folder, stage, path, done, total))

    return tell


def moved(path: str, transfer: Transfer) -> Outcome:
    """Files that are deleted meanwhile are no failure."""
    outcome = transfer.of(list(files(path)))
    outcome.failed = {each: why for each, why in outcome.failed.items() if os.path.lexists(each)}
    return outcome


def data_in(job: Job, mounts: Sequence[str]) -> str:
    """Returns what went wrong, or nothing."""
    for path in job.wanted.stage_in:
        try:
            real = checked(path, mounts)
        except StagingError as error:
            return str(error)
        tell = teller(job, "in", path)
        outcome = moved(real, Transfer("hsm_restore", lambda state: state.loaded, tell, sleep=pause))
        if outcome.failed:
            return verdict.sentence(path, outcome, "could not be loaded from S3")
    job.keep(verdict.progress_over)
    return ""


def places(job: Job) -> list[lustre_users.Place]:
    """Those of the file systems it names that exist only while jobs use them."""
    mounts = (each["mount"] for each in lustre_users.mounts())
    return [lustre_users.Place.of(mount) for mount in mounts if job.wanted.names(mount)]


def wait_for(job: Job, place: lustre_users.Place, pause: Callable[[float], None] = pause) -> None:
    """Until it is there, which takes minutes for the first job that uses it."""
    place.register(job.job_id, slurm.parts(job.job_id))
    told = None
    while (state := place.state()).phase != "ready":
        if told != state.reason:
            told = state.reason
            job.keep(lambda folder: verdict.waits_for(folder, place.mount, state.reason))
        pause(WAIT_S)
    place.tell_nodes(job.job_id, state)


def data_out(job: Job, mounts: Sequence[str]) -> str:
    """Every path is tried, whatever becomes of the others. Returns what went wrong, or nothing."""
    exports = [_exported(job, path, mounts) for path in job.wanted.stage_out]
    if not exports:
        return ""
    job.keep(lambda folder: verdict.write(folder, job.job_id, exports))
    return "; ".join(each.reason for each in exports if each.reason)


def _exported(job: Job, path: str, mounts: Sequence[str]) -> verdict.Export:
    try:
        real = checked(path, mounts)
    except StagingError as error:
        return verdict.Export(path, Outcome(), str(error))
    tell = teller(job, "out", path)
    # a job that was cancelled has results too: this goes on, whoever listens
    outcome = moved(real, Transfer("hsm_archive", lambda state: state.exported, tell))
    return verdict.Export(path, outcome, verdict.sentence(path, outcome, "did not reach S3") if outcome.failed else "")


def run(verb: str, job: Job) -> str:
    """Returns what went wrong, or nothing."""
    if verb == "data-out":
        return data_out(job, lustre_mounts())
    for place in places(job):
        if verb == "data-in":
            wait_for(job, place)
        else:
            place.leave({job.job_id})
    return data_in(job, lustre_mounts()) if verb == "data-in" else ""


def main() -> None:
    start_logging()
    verb, job_id, script, uid, gid = sys.argv[1:]
    try:
        wanted = directives.parse(Path(script).read_text(errors="surrogateescape"))
    except FileNotFoundError:  # a job that is torn down may have lost it
        wanted = directives.Directives(use=tuple(each["mount"] for each in lustre_users.mounts()))
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
