"""A pytest plugin: `gpucluster` commands without the half second of CPU time in which each imports its modules.

A process that has imported them forks for each command. The command has its own standard streams, folder and
environment, and ends as a process ends. Tests of tests/unit/cli start whole processes, and so does `Bed.start`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from localcloud.testing import patience

ROOT = Path(__file__).resolve().parents[2]


class Warm:
    """The process with the modules, and the socket at which it takes commands."""

    def __init__(self) -> None:
        self.used_s = 0.0
        """CPU of all commands that have ended."""
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        self._path = f"{self._folder.name}/socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._path)
            listener.listen(64)
            argv = [sys.executable, "-m", "tests.warm.server", str(listener.fileno())]
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            self._process = subprocess.Popen(argv, cwd=ROOT, env=env, pass_fds=[listener.fileno()])

    def run(
        self, *arguments: str, env: Mapping[str, str], cwd: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with the output captured and nothing to read."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull) as nothing:
            request = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd)}).encode()
            streams = [each.fileno() for each in (nothing, out, err)]
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self._path)
                socket.send_fds(connection, [b"%10d" % len(request)], streams)
                connection.sendall(request)
                code, used_s = self._ended(connection, arguments, timeout_s)
            self.used_s += used_s
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(["gpucluster", *arguments], code, out.read(), err.read())

    def _ended(self, connection: socket.socket, arguments: tuple[str, ...], timeout_s: float) -> tuple[int, float]:
        """Its exit code and its CPU seconds, which come in a line after that of its process id."""
        limit, said = patience.seconds() + timeout_s, b""
        connection.settimeout(1)
        while said.count(b"\n") < 2:
            with suppress(TimeoutError):
                data = connection.recv(100)
                assert data, "the process with the modules has ended"
                said += data
            if patience.seconds() > limit:
                os.kill(int(said.split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["gpucluster", *arguments], timeout_s)
        _, code, used_s = said.split()
        return int(code), float(used_s)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


@cache
def _warm() -> Warm:
    return Warm()


def gpucluster(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, timeout_s: float = 200
) -> subprocess.CompletedProcess[str]:
    return _warm().run(*arguments, env=os.environ if env is None else env, cwd=cwd, timeout_s=timeout_s)


def used_s() -> float:
    """CPU seconds of the commands so far. When this process has ended the other one, they are among its children's."""
    return _warm().used_s if _warm.cache_info().currsize else 0.0


@pytest.hookimpl(tryfirst=True)  # before the plugin that counts the costs
def pytest_sessionfinish() -> None:
    if _warm.cache_info().currsize:
        _warm().close()
        _warm.cache_clear()
