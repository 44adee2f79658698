"""ResumePrograms share one process: a program offers its nodes to one that is launching others, and ends when that one
has accepted them.

Jobs that are submitted one by one cause one ResumeProgram each. Without capacity, each would wait for up to 15 minutes
with AWS's libraries in its memory, 47 MiB. The programs of one bundle share a socket that only root may connect to.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_node import fleet, locks, slurm

log = logging.getLogger("resume")
SOCKET = Path("/run/gpucluster/offers") / fleet.BUNDLE.name
"""Another bundle has other code, and may have other partitions."""
ACCEPTS_S = 300.0
"""A program that accepted for ever would not end while jobs are submitted, and Slurm waits for it. So without capacity
there are up to four, as a launch waits for up to 15 minutes."""
ANSWER_S = 10.0
REQUESTS_AT_ONCE = 400
"""slurmctld starts at most one program a second."""
_READING, _ACCEPTED = b"reading ", b"accepted"


@dataclass(frozen=True)
class Request:
    """The nodes that Slurm wants, and its jobs (SLURM_RESUME_FILE) that wait for them."""

    nodes: Sequence[str]
    jobs: Sequence[dict[str, Any]]
    since: float = field(default_factory=time.time, compare=False)
    """When Slurm asked."""


Accept = Callable[[Request], Callable[[], None]]
"""Records the nodes as being launched. Returns the function that launches them."""


def read(hostlist: str) -> Request:
    """Called first, because Slurm may remove the file when it no longer waits for this program."""
    path = os.environ.get("SLURM_RESUME_FILE")
    return Request(slurm.expand(hostlist), _jobs(Path(path)) if path else [])


def _jobs(path: Path) -> list[dict[str, Any]]:
    """The file has text of users, such as --extra, which may be no UTF-8. Without the file, all nodes are launched one
    by one."""
    try:
        found: list[dict[str, Any]] = json.loads(path.read_bytes().decode(errors="replace"), strict=False)["jobs"]
    except (ValueError, KeyError) as error:
        log.warning("the jobs that wait for the nodes are not known: %s", error)
        return []
    return found


def accepted(request: Request, path: Path = SOCKET) -> bool:
    """Whether another program launches these nodes. If it answers too late, it may have recorded them nevertheless: the
    caller records its nodes too, and a node is launched by the program that recorded it first (`in_flight`)."""
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(ANSWER_S)
            asking.connect(str(path))
            asking.sendall(json.dumps([list(request.nodes), list(request.jobs), request.since]).encode())
            asking.shutdown(socket.SHUT_WR)
            is_accepted = _all(asking) == _READING + _ACCEPTED
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError as error:
        log.warning("another program does not accept nodes: %s", error)
        return False
    if is_accepted:
        log.info("%s: another program launches them", ",".join(request.nodes))
    return is_accepted


def serve(request: Request, accept: Accept, path: Path = SOCKET) -> None:
    """Launches a program's own nodes and, until all launches have ended, those that other programs offer. It listens
    first: `accept` may load AWS's libraries, and the next program should not do that too."""
    until = time.monotonic() + ACCEPTS_S
    with _ends() as (ended, end), ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool, _listening(path) as server:
        running = [_submit(pool, accept(request), end)]
        while server and time.monotonic() < until and not all(each.done() for each in running):
            ready, _, _ = select.select([server, ended], [], [], max(0.0, until - time.monotonic()))
            if ended in ready:
                ended.recv(REQUESTS_AT_ONCE)
            if server in ready:
                running += [_submit(pool, launch, end) for launch in _offered(server, accept)]
    for each in running:
        each.result()


def _submit(pool: ThreadPoolExecutor, launch: Callable[[], None], end: socket.socket) -> Future[None]:
    def say(_: object) -> None:
        with suppress(BlockingIOError):  # the reader has more than enough to read
            end.send(b".")

    future = pool.submit(launch)
    future.add_done_callback(say)
    return future


@contextmanager
def _ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """What is sent to the second socket wakes a reader of the first. When nobody reads any longer, a few hundred bytes
    fill it."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        yield reader, writer


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket | None]:
    """None while another program listens. The socket of a killed program stays, and nobody answers there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locks.opened(path.with_name(f"{path.name}.lock")) as held, socket.socket(socket.AF_UNIX) as server:
        if not (locks.take(held) and _bound(server, path)):
            yield None
            return
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def _bound(server: socket.socket, path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
        server.bind(str(path))
        server.listen()
    except OSError as error:
        log.warning("this program accepts no nodes of others: %s: %s", path, error)
        return False
    return True


def _offered(server: socket.socket, accept: Accept) -> Iterator[Callable[[], None]]:
    """The launch of one offer. The first part of the answer fails if the other program has not waited for it: it may
    have launched the nodes itself, and forgotten them since."""
    nodes: list[str] = []
    try:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(ANSWER_S)
            nodes, jobs, since = json.loads(_all(connection))
            connection.sendall(_READING)
            yield accept(Request(nodes, jobs, since))
            connection.sendall(_ACCEPTED)
    except (OSError, ValueError) as error:
        log.warning("%s: offered by a program that got no answer: %s", ",".join(nodes), error)


def _all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))
