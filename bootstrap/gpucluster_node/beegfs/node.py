"""A node's part of BeeGFS: serves, mounts and fills what the head node's state asks for, and reports.

usage: beegfs_node               follows the head node for as long as the node runs
       beegfs_node --wait S      returns as soon as the file system is usable here, or after S seconds
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gpucluster_node import slurm
from gpucluster_node.beegfs import state as shared
from gpucluster_node.beegfs.state import Report, Settings, State
from gpucluster_node.fleet import BUNDLE
from gpucluster_node.log import start_logging

log = logging.getLogger("beegfs")
INTERVAL_S = 2
RETRY_S = 30
"""Pause after a failure."""
MARKS = {"server": Path("/mnt/beegfs/storage/generation"), "client": Path("/run/gpucluster-beegfs")}
"""Where bootstrap/beegfs.sh writes the generation. A reboot clears both files together with what they describe."""


def doing(settings: Settings, state: State | None, report: Report) -> str | None:
    """The next action of this node: unmount | server | client | fill; None: nothing to do."""
    if state is None:
        return None
    serves = report.node in settings.servers
    if report.client not in ("", state.generation):
        return "unmount"
    if state.phase == "building":
        return "server" if serves and report.server != state.generation else None
    if report.client != state.generation:
        # A server that has lost its memory would mount a broken file system.
        return "client" if not serves or report.server == state.generation else None
    if state.phase == "filling" and serves and settings.source and report.filled != state.generation:
        return "fill"
    return None


def usable(state: State | None, report: Report) -> bool:
    return state is not None and state.phase == "ready" and report.client == state.generation


class Follower:
    """Does one thing at a time; copying runs in the background, so that a loss is noticed during it."""

    def __init__(self, settings: Settings, node: str, report: Callable[[Report], None] = shared.save_report) -> None:
        self._settings, self._save = settings, report
        self._copy: subprocess.Popen[str] | None = None
        self._copying = ""
        self._not_before = 0.0
        self.report = Report(node, server=_mark("server"), client=_mark("client"))
        self._save(self.report)

    def step(self, state: State | None) -> None:
        self._watch_copy(state)
        what = doing(self._settings, state, self.report)
        if state is None or what is None or self._copy or time.monotonic() < self._not_before:
            return
        if what == "fill":
            self._begin_copy(state)
        else:
            self._run(what, state)

    def _run(self, what: str, state: State) -> None:
        users = {"unmount": self._users, "client": tuple}.get(what, lambda: self.report.users)()
        servers = self._settings.servers
        number = {"NUMBER": str(servers.index(self.report.node) + 1)} if self.report.node in servers else {}
        done = run(what, state.generation, **number)
        error = "" if done.returncode == 0 else _last_line(done.stderr)
        self._tell(server=_mark("server"), client=_mark("client"), users=users, error=error)
        log.info("%s of generation %s: %s", what, state.generation, error or "done")
        if error:
            self._not_before = time.monotonic() + RETRY_S

    def _users(self) -> tuple[str, ...]:
        """If Slurm does not answer, none: their programs fail, and Slurm's own rules apply."""
        try:
            return tuple(jobs_with_files_on(self._settings.mount, self.report.node))
        except slurm.SlurmError as error:
            log.warning("jobs with open files: %s", error)
            return ()

    def _begin_copy(self, state: State) -> None:
        source, servers = str(self._settings.source), self._settings.servers
        share = [str(servers.index(self.report.node)), str(len(servers))]
        argv = [sys.executable, "-m", "gpucluster_node.beegfs.files", "fill", self._settings.mount, source, *share]
        argv.append(self._settings.owner)
        log.info("generation %s: copies part %s of %s of %s", state.generation, *share, source)
        self._copying = state.generation
        self._copy = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=BUNDLE)

    def _watch_copy(self, state: State | None) -> None:
        copy = self._copy
        if copy is None:
            return
        if state is None or state.generation != self._copying:
            copy.kill()
        elif copy.poll() is None:
            return
        _, said = copy.communicate()
        self._copy = None
        if copy.returncode == 0:
            self._tell(filled=self._copying, error="")
        elif copy.returncode > 0:
            self._tell(error=_last_line(said))
            self._not_before = time.monotonic() + RETRY_S
        log.info("copy of generation %s: %s", self._copying, _last_line(said) if copy.returncode else "done")

    def _tell(self, **changes: object) -> None:
        self.report = replace(self.report, **changes)  # type: ignore[arg-type]
        self._save(self.report)


def run(what: str, generation: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of bootstrap/beegfs.sh."""
    argv = ["bash", str(BUNDLE / "beegfs.sh"), what]
    environment = {**os.environ, "GENERATION": generation, **environment}
    return subprocess.run(argv, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, env=environment, check=False)


def jobs_with_files_on(mount: str, node: str) -> list[str]:
    """Slurm's numbers of jobs with an open file or their working directory there, each once.

    A process names its job in its environment, which its user can write. It is believed if the job is its user's."""
    named = {(job, uid) for process in Path("/proc").glob("[0-9]*") for job, uid in _named_by(process, mount)}
    owners = slurm.owners_on(node) if named else {}
    return sorted({job for job, uid in named if uid in (0, owners.get(job))})


def _named_by(process: Path, mount: str) -> Iterator[tuple[str, int]]:
    """The job's number and the process's user."""
    try:
        links = [process / "cwd", *(process / "fd").iterdir()]
        if any(_below(os.readlink(link), mount) for link in links):
            uid = re.search(r"^Uid:\t(\d+)", (process / "status").read_text(errors="replace"), re.MULTILINE)
            if uid and (job := _job_of(process)):
                yield job, int(uid[1])
    except OSError:  # the process has ended
        return


def _below(path: str, mount: str) -> bool:
    return f"{path}/".startswith(f"{mount}/")


def _job_of(process: Path) -> str:
    """Not SLURM_ARRAY_TASK_ID: a job that an element submits inherits the element's."""
    for each in (process / "environ").read_bytes().split(b"\0"):
        if found := re.fullmatch(rb"SLURM_JOB_ID=([0-9]{1,10})", each):
            return found[1].decode()
    return ""


def _mark(of: str) -> str:
    try:
        return MARKS[of].read_text().strip()
    except OSError:
        return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "failed without a message"


def wait(limit_s: float) -> None:
    """Waits, for the boot, until the file system is usable here. A time-out is no failure."""
    node, end = socket.gethostname(), time.monotonic() + limit_s
    while time.monotonic() < end:
        state, report = shared.load_state(), shared.load_reports().get(node, Report(node))
        if usable(state, report):
            return
        time.sleep(INTERVAL_S)
    log.warning("%s cannot be used yet: the node continues without it", shared.settings().mount)


def main() -> None:
    start_logging()
    if sys.argv[1:2] == ["--wait"]:
        wait(float(sys.argv[2]))
        return
    follower = Follower(shared.settings(), socket.gethostname())
    while True:
        follower.step(shared.load_state())
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
