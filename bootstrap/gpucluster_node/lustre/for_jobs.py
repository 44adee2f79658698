"""Lustre file systems with `lifetime: jobs`: created for the first job, exported and deleted after the last.

usage: job_lustre                   the head node's service
       job_lustre end [--discard]   deletes the existing ones, and waits until they are deleted. Without --discard it
                                    keeps a file system with files that are not in S3

Jobs request one in Slurm's stage-in and release it in its teardown, see staging.py. A file system that no job has used
for a while is exported, checked, and deleted. If a file is only on it, it is kept and checked again later.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpucluster_node import aws_api, fleet, slurm, states
from gpucluster_node.aws import AWS_ERRORS, client, error_code, error_message
from gpucluster_node.log import start_logging
from gpucluster_node.lustre import fsx, hsm, staging, unexported
from gpucluster_node.lustre.users import FileSystem, State, mounts

log = logging.getLogger("lustre")
INTERVAL_S = 5.0
RETRY_S = 60.0
"""Pause after a failure, or while files are not in S3."""
LUSTRE_MISSING = Path("/var/lib/gpucluster/lustre.missing")
"""From lib/lustre.sh: why the head node has no client. It creates no file system that it cannot mount."""
END_WITHIN_S = 3000.0
LISTED_WITHIN_S = 60.0
"""FSx may not list a new file system at once."""
UNMOUNT_WITHIN_S = 60.0
PRIVATE = Path("/run/gpucluster-lustre/private")


class LustreError(Exception):
    """Why a file system cannot be created, mounted or deleted."""


@dataclass
class Keeper:
    """The file system of one mount. `step` takes the next action and returns at once, except for an export."""

    file_system: FileSystem
    ask: Callable[[], Mapping[str, Any]]
    """The current request: its entry in storage.json with its SSM parameter: request, links, idle_s."""
    api: Any
    tags: Sequence[Mapping[str, str]] = ()
    """The user's own, which do not identify the file system: they may change while it is there."""
    next_look: float = 0.0

    def __post_init__(self) -> None:
        self.wanted: Mapping[str, Any] = self.ask()

    def step(self, now: float) -> None:
        if now < self.next_look:
            return
        state = self.file_system.state()
        try:
            following = self._next(state, now)
        except (*AWS_ERRORS, *aws_api.ERRORS, LustreError, staging.StagingError, hsm.LfsError) as error:
            following = replace(self.file_system.state(), reason=reason_of(error))
            self.next_look = now + RETRY_S
        self._save(state, following)

    def _save(self, before: State, state: State) -> None:
        if (state.phase, state.reason) != (before.phase, before.reason):
            level = logging.WARNING if state.reason else logging.INFO
            log.log(level, "%s: %s %s %s", self.file_system.mount, state.file_system_id, state.phase, state.reason)
        if state != self.file_system.state():
            self.file_system.save(state)

    def _next(self, state: State, now: float) -> State:
        found = fsx.find(self.api, state.file_system_id) if state.file_system_id else None
        steps: dict[str, Callable[[], State]] = {
            "wait_for_a_job": self._absent,
            "request": lambda: self._asked(state),
            "request_again": lambda: replace(state, file_system_id=""),
            "forget": lambda: self._gone(state),
        }
        if found:
            steps |= {
                "await": lambda: self._made(state, found),
                "link": lambda: self._linked(state),
                "serve": lambda: self._ready(state, now),
                "report": lambda: self._stuck(state, f"{state.file_system_id} is {found.lifecycle}", found.failure),
                "stay": lambda: self._stay(state),
                "delete": lambda: self._deleted(state, found),
            }
        return steps[states.LUSTRE.rule(state.phase, _word(state, found)).action]()

    def _absent(self) -> State:
        if not self.file_system.users():
            return State()
        self.wanted = self.ask()  # an update may have changed the next one
        return State("creating", secrets.token_hex(8))

    def _asked(self, state: State) -> State:
        """Sends a refused request again, with the current settings: the user may have fixed the cluster file."""
        known = fsx.tagged(self.api, self.wanted["request"]["Tags"])
        if known:
            return replace(state, file_system_id=known, reason="")
        if not self.file_system.users():
            return State()
        if LUSTRE_MISSING.exists():
            raise LustreError(f"the head node has no Lustre client: {LUSTRE_MISSING.read_text().strip()}")
        wanted = self.ask()
        if wanted["request"] != self.wanted["request"]:
            state = replace(state, token=secrets.token_hex(8))
            self.file_system.save(state)
        self.wanted = wanted
        return replace(state, file_system_id=fsx.create(self._tagged(wanted["request"]), state.token), reason="")

    def _tagged(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**request, "Tags": [*request["Tags"], *self.tags]} if self.tags else request

    def _gone(self, state: State) -> State:
        """Deleted, by this program or somebody else."""
        if state.phase != "deleting":
            log.warning("%s: somebody has deleted %s", self.file_system.mount, state.file_system_id)
            unmount(self.file_system.mount, by_force=True)
        return State()

    def _deleted(self, state: State, found: fsx.FileSystem) -> State:
        if found.lifecycle != "DELETING":
            self._unmount_all()
            fsx.delete(self.api, state.file_system_id)
        return state

    def _unmount_all(self) -> None:
        for each in (self.file_system.mount, private(self.file_system)):
            unmount(each, by_force=True)

    def _stuck(self, state: State, what: str, why: str) -> State:
        """A failed file system that no job has used has no data: another is created for waiting jobs, once the reason
        could be read."""
        reason = f"{what}: {why or 'FSx gives no reason'}"
        if state.phase == "ready" or (self.file_system.users() and state.reason != reason):
            raise LustreError(reason)
        fsx.delete(self.api, state.file_system_id)
        return replace(state, phase="deleting", reason=reason)

    def _made(self, state: State, found: fsx.FileSystem) -> State:
        if found.lifecycle != "AVAILABLE":
            return replace(state, reason="")
        return replace(
            state,
            phase="linking",
            dns_name=found.dns_name,
            mount_name=found.mount_name,
            version=found.version,
            mount=self.file_system.mount,
            for_everybody=",".join(self.wanted["for_everybody"]),
            reason="",
        )

    def _linked(self, state: State) -> State:
        """One link at a time: FSx fails if several are created at once."""
        links = {each.path: each for each in fsx.links(self.api, state.file_system_id)}
        broken = [each for each in links.values() if each.lifecycle in fsx.BROKEN]
        if broken:
            return self._stuck(state, f"FSx cannot link {broken[0].path} with S3", broken[0].failure)
        if any(each.lifecycle != "AVAILABLE" for each in links.values()):
            return state
        left = [each for each in self.wanted["links"] if each["FileSystemPath"] not in links]
        if left:
            fsx.link(self.api, state.file_system_id, self._tagged(left[0]), f"{state.token}-{len(links)}")
            return replace(state, reason="")
        self.file_system.save(state)  # the mount reads it
        mount(self.file_system)
        return replace(state, phase="ready", unused_since=None, reason="")

    def _ready(self, state: State, now: float) -> State:
        mount(self.file_system)  # the head node may have rebooted since
        if self.file_system.users():
            return replace(state, unused_since=None, reason="")
        if state.unused_since is None:
            return replace(state, unused_since=now)
        return state if now - state.unused_since < self.wanted["idle_s"] else self._leave(state)

    def _leave(self, state: State) -> State:
        """Exports, checks, and only then deletes it. A job that requests it meanwhile keeps it, and so does a user's
        open file."""
        if left := not_exported(self.wanted):
            raise LustreError(f"not deleted: {left}")
        leaving = replace(state, phase="leaving", reason="")
        self.file_system.save(leaving)
        # A job that asked before it could read this is seen now; one that asks later waits.
        if self.file_system.users():
            return self._stay(leaving)
        try:
            self._look_for_the_last_time()
        except Exception:
            self.file_system.save(self._stay(leaving))
            raise
        deleting = replace(leaving, phase="deleting")
        self.file_system.save(deleting)
        fsx.delete(self.api, state.file_system_id)
        return deleting

    def _look_for_the_last_time(self) -> None:
        """Called when only root can change files. Raises LustreError if a file is not in S3."""
        unmount(self.file_system.mount)
        alone = private(self.file_system)
        mount(self.file_system, alone)
        try:
            left = not_exported({**self.wanted, "mount": alone}, export=False)
        finally:
            unmount(alone)
        if left:
            raise LustreError(f"not deleted: {left.replace(alone, self.file_system.mount)}")

    def _stay(self, state: State) -> State:
        unmount(private(self.file_system))
        mount(self.file_system)
        return replace(state, phase="ready", unused_since=None)


def _word(state: State, found: fsx.FileSystem | None) -> str:
    if not found:
        return states.MISSING if state.file_system_id else states.NOT_ASKED
    if found.lifecycle in fsx.BROKEN:
        return states.BROKEN
    return states.AVAILABLE if found.lifecycle == "AVAILABLE" else states.UNDER_WAY


def reason_of(error: Exception) -> str:
    said = f"{error_code(error)}: {error_message(error)}" if isinstance(error, AWS_ERRORS) else str(error)
    return " ".join(said.split())


def not_exported(wanted: Mapping[str, Any], *, export: bool = True) -> str:
    """`3 of 12 files of /fsx/runs are not in S3, such as /fsx/runs/a`; empty if all are."""
    found = [each for each in unexported.report([wanted], export=export) if each["not_exported"]]
    return "; ".join(
        f"{each['not_exported']} of {each['files']} files of {each['path']} are not in S3, such as {each['first'][0]}"
        for each in found
    )


def private(file_system: FileSystem) -> str:
    """Where the head node mounts it when nobody may write to it any more. Only root can enter the folder."""
    return str(PRIVATE / file_system.folder.name)


def mount(file_system: FileSystem, where: str = "") -> None:
    """Unmounts it on the head node, at its mount or elsewhere."""
    if staging.is_mounted(where or file_system.mount):
        return
    PRIVATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["bash", str(fleet.BUNDLE / "head.sh"), "job_lustre", file_system.folder.name, where or file_system.mount]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LustreError(f"the head node cannot mount it: {said[-1] if said else argv}")


def unmount(mounted: str, *, by_force: bool = False) -> None:
    """By force: a process may still have its working directory there, and nothing in it can be read any more."""
    if not staging.is_mounted(mounted):
        return
    for argv in (["umount", mounted], *([["umount", "--force", "--lazy", mounted]] if by_force else [])):
        if _ends_well(argv):
            return
    raise LustreError(f"{mounted} is in use on the head node: `fuser -vm {mounted}` there says by whom")


def _ends_well(argv: Sequence[str]) -> bool:
    """A process that waits for a dead server cannot even be killed, so it is left alone."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(UNMOUNT_WITHIN_S) == 0
    except subprocess.TimeoutExpired:
        return False


def forget_ended(file_system: FileSystem, unfinished: Callable[[], set[str]] = slurm.unfinished_jobs) -> None:
    """Jobs that have ended without a teardown. Jobs that register during the query to Slurm are not included."""
    users = file_system.users()
    if users:
        file_system.leave(users - unfinished())


def keepers() -> list[Keeper]:
    cluster, ssm = fleet.load(), client("ssm")
    tags = [{"Key": key, "Value": value} for key, value in cluster.tags.items()]
    found = []
    for each in mounts():
        file_system = FileSystem.of(each["mount"])
        file_system.make()

        def ask(entry: Mapping[str, Any] = each) -> Mapping[str, Any]:
            return {**fleet.parameter(ssm, cluster, entry["parameter"]), **entry}

        found.append(Keeper(file_system, ask, client("fsx"), tags))
    return found


def serve() -> None:
    """Each file system has its own thread, because an export may take hours. An unexpected error ends the program, and
    systemd restarts it."""
    while not (kept := _keepers_or_none()):
        time.sleep(INTERVAL_S)
    with ThreadPoolExecutor(len(kept)) as pool:
        for ended in as_completed([pool.submit(keep, each) for each in kept]):
            if ended.exception():
                log.critical("ended by %r", ended.exception())
                os._exit(1)


def _keepers_or_none() -> list[Keeper] | None:
    try:
        return keepers()
    except (*AWS_ERRORS, OSError) as error:
        log.warning("skipped: %s", error)
        return None


def keep(keeper: Keeper) -> None:
    while True:
        try:
            forget_ended(keeper.file_system)
            keeper.step(time.time())
        except (slurm.SlurmError, OSError) as error:
            log.warning("skipped: %s", error)
        time.sleep(INTERVAL_S)


def end(keeper: Keeper, *, discard: bool) -> str | None:
    """The id of the file system that is deleted when this returns; None if there was none. Raises LustreError."""
    file_system, until = keeper.file_system, time.monotonic() + END_WITHIN_S
    ended = None
    while (state := file_system.state()).phase != "absent":
        # A file system that was requested when the service ended, before its answer, is found by its tags.
        file_system_id = state.file_system_id or fsx.tagged(keeper.api, keeper.wanted["request"]["Tags"])
        found = fsx.find(keeper.api, file_system_id) if file_system_id else None
        if found is None or file_system_id is None:
            if state.phase == "creating" and time.monotonic() < until - END_WITHIN_S + LISTED_WITHIN_S:
                time.sleep(INTERVAL_S)
                continue
            file_system.save(State())
            break
        ended = file_system_id
        if time.monotonic() > until:
            after = f"after {END_WITHIN_S / 60:.0f} minutes"
            raise LustreError(f"{file_system.mount}: {ended} is {found.lifecycle} {after}")
        if found.lifecycle not in ("CREATING", "DELETING"):
            if state.phase in ("ready", "leaving") and not discard and (left := _left(keeper)):
                raise LustreError(left)
            file_system.save(replace(state, phase="deleting", file_system_id=ended))
            keeper._unmount_all()
            fsx.delete(keeper.api, ended)
        time.sleep(INTERVAL_S)
    return ended


def _left(keeper: Keeper) -> str:
    mount(keeper.file_system)
    return not_exported(keeper.wanted, export=False)


def main() -> None:
    start_logging()
    if sys.argv[1:2] != ["end"]:
        serve()
    _service("stop")
    try:
        for keeper in keepers():
            ended = end(keeper, discard="--discard" in sys.argv[2:])
            if ended:
                print(f"{keeper.file_system.mount}: {ended} is deleted")
    except (*AWS_ERRORS, LustreError, staging.StagingError, hsm.LfsError, OSError) as error:
        _service("start")  # the cluster stays
        sys.exit(reason_of(error))


def _service(verb: str) -> None:
    subprocess.run(["systemctl", verb, "gpucluster-job_lustre"], check=False)


if __name__ == "__main__":
    main()
