"""`ssh -L` through the tunnel: a port of the head node or a compute node on this machine's loopback."""

from __future__ import annotations

import errno
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpucluster.errors import UsageError
from gpucluster.head import copying
from gpucluster.head.openssh import Alias

LOOPBACK = "127.0.0.1"
_CONNECTED = "gpucluster: connected"
_TRIED_PORTS = 100
POLL_S = 10.0
"""Between two questions whether it is over."""


@dataclass(frozen=True)
class Ports:
    here: int
    there: int

    @classmethod
    def parse(cls, text: str) -> Ports:
        """`8888`, or local and remote port: `8889:8888`. Raises UsageError."""
        numbers = [int(number) for number in text.split(":")] if re.fullmatch(r"\d{1,5}(:\d{1,5})?", text) else []
        if not numbers or not all(1 <= number <= 65535 for number in numbers):
            raise UsageError(f"{text!r} is not a port (1 to 65535) or two with a colon", "gpucluster forward 8889:8888")
        return cls(numbers[0], numbers[-1])

    def check(self) -> None:
        """Raises UsageError if this machine's port cannot be used."""
        problem = taken(self.here)
        if problem == errno.EADDRINUSE:
            free = first_free(self.here + 1)
            hint = f"the next free port: gpucluster forward {free}:{self.there}" if free else None
            raise UsageError(f"port {self.here} of this machine is in use", hint)
        if problem:
            raise UsageError(
                f"you may not listen on port {self.here} of this machine",
                f"use a port above 1023: gpucluster forward {8000 + self.there % 1000}:{self.there}",
            )


def first_free(port: int) -> int | None:
    """From this port on; None if many are taken."""
    return next((each for each in range(port, min(port + _TRIED_PORTS, 65536)) if not taken(each)), None)


def taken(port: int) -> int:
    """0, or the system's error number."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ssh does
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error.errno or errno.EADDRINUSE
    return 0


def ssh_argv(alias: Alias, ports: Ports, node: str | None) -> list[str]:
    """With a connection of its own: the process of a shared one would keep listening after this ssh has ended."""
    own = ("ControlMaster=no", "ControlPath=none")
    tell = f"sh -c 'echo {_CONNECTED} >&2'"  # ssh runs it with the user's shell; in csh, >&2 names a file
    options = (*own, "ExitOnForwardFailure=yes", "PermitLocalCommand=yes", f"LocalCommand={tell}")
    return [
        *("ssh", "-F", str(alias.config_file), "-N", *(f"-o{option}" for option in options)),
        *("-L", f"{LOOPBACK}:{ports.here}:localhost:{ports.there}", alias.host(node)),
    ]


Over = Callable[[], str]
"""Says why the port is to be forwarded no longer; empty if it is."""


def forward(
    argv: list[str], where: str, ports: Ports, connected: Callable[[], None], tell: Callable[[str], None],
    over: Over = lambda: "",
) -> None:  # fmt: skip
    """Runs until the caller is interrupted, or it is `over`. Raises ssh's error, unless its connection had lasted for a
    while."""
    watch = _Watch(over)
    while True:
        began = time.monotonic()
        exit_code, said = _run(argv, where, ports, connected, tell, watch)
        if watch.why:
            return tell(f"{watch.why}: port {ports.here} is no longer forwarded")
        lasted_s = time.monotonic() - began
        if lasted_s < copying.LONG_ENOUGH_S:
            raise copying.failure("ssh", exit_code, said, where)
        tell(f"the connection broke after {lasted_s / 60:.0f} min: connecting again")


class _Watch:
    """Ends ssh when it is over."""

    def __init__(self, over: Over) -> None:
        self._over, self.why = over, ""

    def start(self, process: subprocess.Popen[str]) -> None:
        threading.Thread(target=self._until_over, args=(process,), daemon=True).start()

    def _until_over(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            time.sleep(POLL_S)
            if process.poll() is None and (why := self._over()):
                self.why = why
                process.terminate()
                return


def _run(
    argv: list[str], where: str, ports: Ports, connected: Callable[[], None], tell: Callable[[str], None], watch: _Watch
) -> tuple[int, list[str]]:
    said: list[str] = []
    is_reported = False
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        watch.start(process)
        try:
            for line in map(str.rstrip, process.stderr):
                if line == _CONNECTED:
                    connected()
                elif "open failed: connect failed" in line:
                    if not is_reported:  # a browser tries again and again
                        tell(f"nothing listens on port {ports.there} of {where} yet")
                    is_reported = True
                else:
                    said.append(line)
        finally:
            process.terminate()
    return process.returncode, said
