"""The hosts of a job meet at the first one before their ranks start, and learn from it when the job has ended.

Each of the other hosts connects and sends its name. The first host answers with the public key with which it will log
in there, or an empty line if its launcher needs none. The host sends `ready`; when all are, the first one sends `go`,
and at the end `ended CODE REASON`. Each other host's last line is `wrote NAMES`, its new checkpoints as JSON.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import Callable, Sequence

from gpucluster_job.log import say
from gpucluster_job.settings import GaveUp

LONGEST_S = 900.0
"""Containers of one job start within minutes of each other: images and input data take differently long."""
POLL_S = 1.0
LONGEST_LINE = 4096
WROTE, ENDED = "wrote ", "ended "

Check = Callable[[], None]
"""Is called about each second, and may raise."""


class Line:
    """A connection that carries lines."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._read = connection, b""
        connection.settimeout(POLL_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, text: str) -> None:
        self._connection.sendall(f"{text}\n".encode())

    def hear(self, check: Check, until: float | None = None) -> str | None:
        """None if the other host has closed the connection or is lost. Raises TimeoutError."""
        while b"\n" not in self._read:
            check()
            if until and time.monotonic() >= until:
                raise TimeoutError
            try:
                data = self._connection.recv(LONGEST_LINE)
            except socket.timeout:
                continue
            except OSError:
                return None
            if not data or len(self._read) > LONGEST_LINE:
                return None
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def close(self) -> None:
        self._connection.close()


class FirstHost:
    def __init__(self, port: int, others: Sequence[str], check: Check, *, longest_s: float = LONGEST_S) -> None:
        self._others, self._check, self._longest_s = list(others), check, longest_s
        self._lines: dict[str, Line] = {}
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._server.bind(("", port))
        except OSError as error:
            raise GaveUp(f"port {port} of the first host: {error.strerror}: set MASTER_PORT to another port") from None
        self._server.listen(len(self._others) + 8)
        self._server.settimeout(POLL_S)

    def gather(self, key: str = "") -> None:
        """Returns when all hosts are ready. Raises GaveUp."""
        until = time.monotonic() + self._longest_s
        try:
            while missing := [host for host in self._others if host not in self._lines]:
                self._accept(key, until, missing)
            for host, line in self._lines.items():
                if line.hear(self._check, until) != "ready":
                    raise GaveUp(f"{host} has ended before the ranks started: its own log says why", host)
        except TimeoutError:
            late = [host for host in self._others if host not in self._lines] or self._others
            raise GaveUp(
                f"{' '.join(late)} did not come within {self._longest_s:g} s: their logs say how far they are"
            ) from None
        for line in self._lines.values():
            line.send("go")

    def _accept(self, key: str, until: float, missing: list[str]) -> None:
        self._check()
        if time.monotonic() >= until:
            raise TimeoutError
        try:
            connection, _ = self._server.accept()
        except socket.timeout:
            return
        line = Line(connection)
        try:
            name = line.hear(self._check, time.monotonic() + 10 * POLL_S)
        except TimeoutError:
            name = None
        if name not in missing:
            line.close()
            return
        line.send(key)
        self._lines[str(name)] = line

    def end(self, code: int, longest_s: float = 1.0, reason: str = "") -> dict[str, list[str]]:
        """What each of the other hosts has written, if it says so in time. `reason`: why the job failed."""
        said = " ".join(reason.split()).encode()[: LONGEST_LINE // 2].decode(errors="ignore")
        until, wrote = time.monotonic() + longest_s, {}
        for line in self._lines.values():
            with suppress(OSError):
                line.send(f"{ENDED}{code} {said}")
        for host, line in self._lines.items():
            with suppress(OSError, TimeoutError, ValueError):
                heard = line.hear(lambda: None, until) or ""
                wrote[host] = json.loads(heard[len(WROTE) :]) if heard.startswith(WROTE) else []
            line.close()
        self._server.close()
        return wrote


def _fitting(names: Sequence[str]) -> str:
    """As many names as a line has room for."""
    kept = list(names)
    while len(text := json.dumps(kept)) > LONGEST_LINE - 100:
        kept = kept[: len(kept) // 2]
    return text


def _end(said: str) -> tuple[int, str]:
    code, _, reason = said[len(ENDED) :].partition(" ")
    return int(code), reason


class OtherHost:
    def __init__(self, first: str, port: int, name: str, check: Check, *, longest_s: float = LONGEST_S) -> None:
        self._first, self._check = first, check
        self._until = time.monotonic() + longest_s
        self._line = Line(self._connected(first, port, longest_s))
        self._line.send(name)
        self.key = self._heard()

    def ready(self) -> None:
        """Returns when all hosts are. Raises GaveUp."""
        self._line.send("ready")
        said = self._heard()
        if said != "go":
            why = _end(said)[1] or f"{self._first} has ended before the ranks started: its own log says why"
            raise GaveUp(why, self._first)

    def end_of_job(self) -> tuple[int, str]:
        """The exit code of the first host's launcher, and why the job failed. Raises GaveUp."""
        said = self._line.hear(self._check)
        if said is None or not said.startswith(ENDED):
            raise GaveUp(f"the connection to {self._first} was lost while the job ran", self._first)
        return _end(said)

    def reason(self, longest_s: float) -> str:
        """Why the job failed, if the first host says so in time."""
        try:
            said = self._line.hear(self._check, time.monotonic() + longest_s) or ""
        except TimeoutError:
            return ""
        return _end(said)[1] if said.startswith(ENDED) else ""

    def close(self, wrote: Sequence[str] = ()) -> None:
        with suppress(OSError):
            self._line.send(WROTE + _fitting(wrote))
        self._line.close()

    def _heard(self) -> str:
        try:
            said = self._line.hear(self._check, self._until)
        except TimeoutError:
            raise GaveUp(f"{self._first} did not let this host begin in time: its log says what it waits for") from None
        if said is None:
            self.close()
            raise GaveUp(f"{self._first} has ended before the ranks started: its own log says why", self._first)
        return said

    def _connected(self, first: str, port: int, longest_s: float) -> socket.socket:
        said = False
        while True:
            self._check()
            try:
                return socket.create_connection((first, port), timeout=POLL_S)
            except OSError as error:
                if time.monotonic() >= self._until:
                    raise GaveUp(
                        f"{first}, port {port}: no connection after {longest_s:g} s: {error}; the hosts of a job must "
                        "reach each other on all ports: check the rules of its security groups"
                    ) from None
            if not said:
                say(f"[sagemaker] waiting for {first}")
                said = True
            time.sleep(POLL_S / 2)
