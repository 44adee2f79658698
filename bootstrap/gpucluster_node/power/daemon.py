"""gpucluster-power: launches and terminates the instances of Slurm's nodes, and keeps the two in step.

It takes Slurm's requests from a folder (`spool`), executes each in a thread, and looks at all nodes every few seconds
(`reconcile`). It may end at any moment: systemd starts it again, and it completes the launches of its journal.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from gpucluster_node import fleet, locks, spooled
from gpucluster_node.log import start_logging
from gpucluster_node.power import journal, reconcile, resume, spool, suspend

log = logging.getLogger("power")
LOCK = Path("/run/gpucluster/power.lock")
LOOK_S = 0.2
LATER_S = 5.0
"""Until a request is tried again whose launch could not be recorded."""
ROUND_S = 900.0
"""A round of reconcile that takes longer hangs: AWS's client gives up each call after 60 s, and tries it five times."""


Start = Callable[[Callable[[], None]], None]
"""Executes something beside others."""


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


class Daemon:
    def __init__(
        self,
        book: journal.Journal,
        folder: Path = spool.FOLDER,
        start: Start = in_thread,
    ) -> None:
        self._book, self._folder, self._start = book, folder, start
        self._busy: set[Path] = set()
        """Requests that are being executed, or cannot be removed."""

    def replay(self) -> None:
        """Completes the launches of a process that was killed, or ended for a new bundle."""
        for record in self._book.reopen():
            self._start(partial(resume.launch_again, record))

    def look(self) -> None:
        """Takes what Slurm has asked for. A request stays in the folder until it is in the journal, or has ended."""
        for path in spooled.waiting(self._folder):
            if path in self._busy:
                continue
            try:
                self._take(path, spool.read(path))
            except spooled.InvalidError as error:
                log.warning("a request is ignored: %s", error)
                self._remove(path)

    def _take(self, path: Path, request: spool.Request) -> None:
        if request.verb == spool.RESUME:
            launch = resume.accept(request, self._book)
            self._remove(path)
            self._start(launch)
        else:
            self._busy.add(path)
            self._start(partial(self._suspend, path, request))

    def _suspend(self, path: Path, request: spool.Request) -> None:
        """If it fails, reconcile terminates the instances of nodes that are powered down."""
        try:
            asked_at = datetime.fromtimestamp(request.since, timezone.utc)
            suspend.suspend(fleet.load(), request.nodes, asked_at)
        except Exception:
            log.exception("%s: not suspended", ",".join(request.nodes))
        self._busy.discard(path)
        self._remove(path)

    def _remove(self, path: Path) -> None:
        if not spooled.discard(path):
            self._busy.add(path)


class Rounds(threading.Thread):
    """The thread of reconcile."""

    def __init__(self, rounds: reconcile.Rounds) -> None:
        super().__init__(daemon=True)
        self._rounds, self._began = rounds, time.monotonic()

    def run(self) -> None:
        reconcile.prepare(self._rounds.cluster)
        while True:
            self._began = time.monotonic()
            time.sleep(self._rounds.once())

    def lasts(self) -> bool:
        """Whether it is alive and does not hang."""
        return self.is_alive() and time.monotonic() - self._began < ROUND_S


def tell_systemd(text: str) -> None:
    """As sd_notify(3): https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(text.encode(), path.replace("@", "\0", 1) if path.startswith("@") else path)


def main() -> None:
    start_logging()
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with locks.held(LOCK):
        book = journal.Journal()
        daemon, rounds = Daemon(book), Rounds(reconcile.Rounds.of(fleet.load(), book))
        daemon.replay()
        rounds.start()
        while True:
            try:
                daemon.look()
            except OSError as error:
                log.error("Slurm's requests wait: %s", error)
                time.sleep(LATER_S)
            if rounds.lasts():
                tell_systemd("WATCHDOG=1")
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
