"""Runs commands on the login node of a cluster that GpuCluster did not build. It uses the user's own OpenSSH, with
their configuration, keys, agent and jump hosts."""

from __future__ import annotations

import base64
import contextlib
import os
import pwd
import re
import select
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpucluster.errors import RemoteError, UnansweredError, UsageError
from gpucluster.head import commands, copying, streams
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import Completed, Outlast, Sent
from gpucluster.layout import Site

_SSH_FAILED = 255
_IDLE_S = 0.5
_KEPT_S = 600
"""How long ssh keeps an unused connection open: for each new one, users may have to type a password or a code."""

# `squeue` must list only this user's jobs, whatever the user's own files set (man squeue: SQUEUE_USERS).
_SETTING = """
export PATH="$1:$PATH" SQUEUE_USERS="$(id -un)" SLURM_TIME_FORMAT=standard
shift
"""

# csh and tcsh accept neither a newline nor "!" between quotes, so the command is in base64. stdin is left for the
# command.
_ANY_SHELL = """sh -c 'eval "$(printf %s "$1" | base64 -d)"' sh"""

# RemoteCommand none: if the user's configuration sets one, ssh refuses a command (OpenSSH 7.6 and newer, readconf.c).
_CONFIG = """\
Host {host}
{given}
Match all
  RemoteCommand none
  Include ~/.ssh/config
  Include /etc/ssh/ssh_config
Host {host}
{kept}  ConnectTimeout 30
  ServerAliveInterval 30
"""
_KEPT = f"""\
  ControlMaster auto
  ControlPath ~/.ssh/gpu-%C
  ControlPersist {_KEPT_S}
"""
_SOCKET_BYTES = 104
"""sun_path on macOS, with its final NUL. Linux has 108."""


@dataclass(frozen=True)
class Address:
    """ssh://[user@]host[:port]"""

    host: str
    user: str = ""
    port: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises UsageError."""
        found = re.fullmatch(
            r"ssh://(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*)(?::(?P<port>\d+))?/?", text
        )
        if not found:
            raise UsageError(
                f"{text!r} is not an address such as ssh://me@login.example.org or ssh://login:2222",
                "the host may be a Host of your ~/.ssh/config",
            )
        return cls(found["host"], found["user"] or "", found["port"] or "")

    @property
    def text(self) -> str:
        """In a form that ssh also accepts."""
        return f"ssh://{self.user}{'@' * bool(self.user)}{self.host}{':' * bool(self.port)}{self.port}"

    @property
    def config(self) -> str:
        """OpenSSH uses the first value that it finds. So the address takes precedence over the user's files."""
        given = {"User": self.user, "Port": self.port}
        lines = "\n".join(f"  {key} {value}" for key, value in given.items() if value)
        return _CONFIG.format(host=self.host, given=lines, kept=_kept())


def _kept() -> str:
    """Empty if the socket's path would be too long, because ssh would fail. ssh first makes the socket under a longer
    name, with a dot and 16 characters more (OpenSSH, mux.c). %C has 40 characters; ~ is the home in the user
    database."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    return _KEPT if len(os.fsencode(home)) + len("/.ssh/gpu-") + 40 + 17 < _SOCKET_BYTES else ""


@dataclass(frozen=True)
class Login(Alias):
    """The host names that scp, rsync and ssh use; their configuration is in `folder`."""

    to: str = ""

    @property
    def name(self) -> str:
        return self.to

    def host(self, node: str | None) -> str:
        """Adds a jump through the login node for this node only. Not for all hosts, because the user may reach the
        login node itself through a jump host."""
        if node:
            with self.config_file.open("a", encoding="utf-8") as file:
                file.write(f"Host {node}\n  ProxyJump {self.to}\n")
        return node or self.to


class LoginRemote:
    """A `Remote`."""

    def __init__(self, name: str, address: Address, site: Site, programs: str = "") -> None:
        """name: the context's name. programs: the folder of Slurm's commands on the cluster."""
        self._name, self._address, self._programs = name, address, programs
        self._made = tempfile.TemporaryDirectory(prefix="gpucluster-")
        self.alias = Login(Path(self._made.name), address.host)
        self.alias.config_file.write_text(address.config, encoding="utf-8")
        self._site = site

    def real(self, path: str) -> str:
        return self._site.real(path)

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed:
        code, out, error = self._execute(argv, input, timeout_s, sent)
        return Completed(code, out.decode(errors="replace"), error)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        self.run(commands.put_argv(path, mode), input=data).check(f"cannot write {path} on {self._address.host}")

    def get(self, path: str) -> bytes:
        code, out, error = self._execute(["cat", "--", path], None, 60, None)
        Completed(code, "", error).check(f"cannot read {path} on {self._address.host}")
        return out

    def stream(self, argv: Sequence[str], *, what: str, stop: Callable[[], bool] | None = None) -> Iterator[bytes]:
        with tempfile.TemporaryFile() as error, self._started(argv, error) as process:
            try:
                yield from commands.output_after_mark(_output(process, stop))
            except RemoteError:
                error.seek(0)
                raise self._unreachable(process.wait(), commands.messages(error.read())) from None
            except GeneratorExit:
                process.kill()
                raise
            process.wait()
            error.seek(0)
            messages = commands.messages(error.read())
        if process.returncode == _SSH_FAILED:
            raise UnansweredError(f"the connection to {self._address.host} broke: {_last(messages)}")
        Completed(process.returncode, "", messages).check(what)

    def follow(self, path: str, *, stop: Callable[[], bool], outlast: Outlast | None = None) -> Iterator[str]:
        return commands.lines_of(lambda offset: self._tail(path, offset, stop, outlast))

    def attach(self, argv: Sequence[str] | None) -> int:
        """A login shell, or a command, with this terminal. Returns the exit code."""
        words = [*self._ssh(), *(["-t"] if argv and os.isatty(0) and os.isatty(1) else []), self._address.host]
        return subprocess.call([*words, *([self._sent(argv, quiet=True)] if argv else [])])

    def close(self) -> None:
        self._made.cleanup()

    def end(self) -> None:
        """Ends the connection that ssh keeps open for later commands."""
        subprocess.run([*self._ssh(), "-O", "exit", self._address.host], capture_output=True, check=False)

    def _ssh(self) -> list[str]:
        return ["ssh", "-F", str(self.alias.config_file)]

    def _sent(self, argv: Sequence[str], *, quiet: bool = False) -> str:
        """The command in a form that any login shell accepts."""
        return f"{_ANY_SHELL} {base64.b64encode(os.fsencode(f'exec {self._around(argv, quiet)}')).decode()}"

    def _around(self, argv: Sequence[str], quiet: bool) -> str:
        if argv[0] == "sudo":
            raise UsageError(
                f"the context {self._name} is a cluster that GpuCluster did not build: this needs root there",
                "docs/existing-slurm.md lists what works on such clusters",
            )
        words = [self._programs or "/usr/bin", *argv]
        alone = ["sh", "-c", f'{_SETTING}exec "$@"', "sh", *words]
        return shlex.join(alone if quiet else commands.around(words, _SETTING))

    def _started(self, argv: Sequence[str], error: IO[bytes]) -> subprocess.Popen[bytes]:
        """error: a file, because the ssh process that keeps the connection may hold a pipe open for minutes."""
        words = [*self._ssh(), "-T", self._address.host, self._sent(argv)]
        copying.require("ssh")
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error)

    def _execute(
        self, argv: Sequence[str], input: bytes | None, timeout_s: float, sent: Sent | None
    ) -> tuple[int, bytes, str]:
        """Never sends a command twice."""
        with tempfile.TemporaryFile() as error, self._started(argv, error) as process:
            threading.Thread(target=_send, args=(process.stdin, input or b"", sent), daemon=True).start()
            process.stdin = None
            try:
                out, _ = process.communicate(timeout=timeout_s)
            except BaseException as problem:
                process.kill()
                if isinstance(problem, subprocess.TimeoutExpired):
                    raise UnansweredError(f"{self._address.host} did not answer within {timeout_s:.0f} s") from None
                raise
            error.seek(0)
            messages = commands.messages(error.read())
        if (output := commands.after_mark(out)) is None:
            raise self._unreachable(process.returncode, messages)
        if process.returncode == _SSH_FAILED:
            raise UnansweredError(f"the connection to {self._address.host} broke: {_last(messages)}")
        return process.returncode, output, messages

    def _unreachable(self, code: int, messages: str) -> RemoteError:
        host, last = self._address.host, _last(messages)
        if code != _SSH_FAILED:
            return RemoteError(f"{host} did not run a command: {last}", f"try: ssh {self._address.text} true")
        return RemoteError(f"no SSH connection to {host}: {last}", f"this must work first: ssh {self._address.text}")

    def _tail(
        self, path: str, offset: int, stop: Callable[[], bool], outlast: Outlast | None
    ) -> Iterator[bytes | None]:
        """The file's content from `offset` on, then None at the end of the file. Without None, the connection ended."""
        with tempfile.TemporaryFile() as error, self._started(commands.tail_argv(path, offset), error) as process:
            try:
                yield from commands.pieces_after_mark(_pieces(process, stop))
            finally:
                process.kill()
                error.seek(0)
                messages = commands.messages(error.read())
        if process.returncode == _SSH_FAILED:
            lost = self._unreachable(_SSH_FAILED, messages)
            if outlast is None:
                raise lost
            outlast(lost)


def _pieces(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> Iterator[bytes | None]:
    assert process.stdout is not None
    source, stopping = process.stdout.fileno(), False
    while True:
        if not select.select([source], [], [], _IDLE_S)[0]:
            if stopping:
                yield None
                return
            stopping = stop()
            continue
        data = os.read(source, 65536)
        if not data:
            process.wait()
            return
        yield data


def _output(process: subprocess.Popen[bytes], stop: Callable[[], bool] | None) -> Iterator[bytes]:
    """As `streams.received`."""
    assert process.stdout is not None and process.stdin is not None
    source = process.stdout.fileno()
    if stop is None:
        process.stdin.close()
    while True:
        if not select.select([source], [], [], _IDLE_S)[0]:
            if stop and stop():
                process.stdin.close()
                stop = None
            continue
        if not (data := os.read(source, 65536)):
            return
        yield data


def _send(target: IO[bytes], data: bytes, sent: Sent | None) -> None:
    with contextlib.suppress(OSError, ValueError), target:
        streams.send(target.write, data, sent or (lambda count: None))


def _last(text: str) -> str:
    return commands.last_line(text, "ssh printed no message")
