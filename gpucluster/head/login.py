"""Running commands on the login node of a cluster that we have not built: with the user's own OpenSSH, so with their
configuration, keys, agent and jump hosts."""

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

from gpucluster.errors import RemoteError, UsageError
from gpucluster.head import copying, streams
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import Completed, Outlast, Sent, lines_of, put_argv, tail_argv
from gpucluster.layout import Site

_BEGIN = b"gpucluster:begin\n"
"""Before a command's output. Files like ~/.bashrc may print something first; without this line, ssh itself failed."""
_SSH_FAILED = 255
_IDLE_S = 0.5
_KEPT_S = 600
"""How long ssh keeps a connection that nothing uses: users may have to type a password or a code for each new one."""

# `squeue` lists this user's jobs alone, whatever the user's files set for it (man squeue: SQUEUE_USERS).
_AROUND = """
export PATH="$1:$PATH" SQUEUE_USERS="$(id -un)" SLURM_TIME_FORMAT=standard
unset SQUEUE_PARTITION SQUEUE_SORT SINFO_PARTITION
shift
printf 'gpucluster:begin\\n'
exec "$@"
"""

# csh and tcsh take neither a newline nor "!" between quotes, so the command is in base64. stdin is the command's own.
_ANY_SHELL = """sh -c 'eval "$(printf %s "$1" | base64 -d)"' sh"""

# RemoteCommand: with the user's own, ssh refuses a command (as old as RemoteCommand: OpenSSH 7.6, readconf.c).
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
        """ssh takes it as well."""
        return f"ssh://{self.user}{'@' * bool(self.user)}{self.host}{':' * bool(self.port)}{self.port}"

    @property
    def config(self) -> str:
        """OpenSSH takes the first value that it finds: what the address says, then what the user's files say."""
        given = {"User": self.user, "Port": self.port}
        lines = "\n".join(f"  {key} {value}" for key, value in given.items() if value)
        return _CONFIG.format(host=self.host, given=lines, kept=_kept())


def _kept() -> str:
    """Empty where the socket's path would be too long: ssh would fail. ssh makes it under a name with a dot and 16
    characters more (OpenSSH, mux.c). %C is 40; ~ is the folder in the user database."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    return _KEPT if len(os.fsencode(home)) + len("/.ssh/gpu-") + 40 + 17 < _SOCKET_BYTES else ""


@dataclass(frozen=True)
class Login(Alias):
    """As scp, rsync and ssh name its hosts: `folder` holds the configuration."""

    to: str = ""

    @property
    def name(self) -> str:
        return self.to

    def host(self, node: str | None) -> str:
        """A node is reached through the login node; not every other host: the user may have a jump host before it."""
        if node:
            with self.config_file.open("a", encoding="utf-8") as file:
                file.write(f"Host {node}\n  ProxyJump {self.to}\n")
        return node or self.to


class LoginRemote:
    """A `Remote`. Paths that begin with `account.home()` are those of the site's folder there."""

    def __init__(self, name: str, address: Address, site: Site, programs: str = "") -> None:
        """`name`: of the context. `programs`: the folder of Slurm's commands."""
        self._name, self._address, self._site, self._programs = name, address, site, programs
        self._made = tempfile.TemporaryDirectory(prefix="gpucluster-")
        self.alias = Login(Path(self._made.name), address.host)
        self.alias.config_file.write_text(address.config, encoding="utf-8")
        self.real = site.real

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed:
        code, out, error = self._execute(argv, input, timeout_s, sent)
        return Completed(code, out.decode(errors="replace"), error)

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        self.run(put_argv(path, mode), input=data).check(f"cannot write {path} on {self._address.host}")

    def get(self, path: str) -> bytes:
        code, out, error = self._execute(["cat", "--", path], None, 60, None)
        Completed(code, "", error).check(f"cannot read {path} on {self._address.host}")
        return out

    def follow(self, path: str, *, stop: Callable[[], bool], outlast: Outlast | None = None) -> Iterator[str]:
        return lines_of(lambda offset: self._tail(path, offset, stop, outlast))

    def attach(self, argv: Sequence[str] | None) -> int:
        """A login shell, or a command, with this terminal. Returns the exit code."""
        words = [*self._ssh(), *(["-t"] if argv and os.isatty(0) and os.isatty(1) else []), self._address.host]
        return subprocess.call([*words, *([self._sent(argv, quiet=True)] if argv else [])])

    def close(self) -> None:
        self._made.cleanup()

    def end(self) -> None:
        """Ends the connection that ssh keeps for other programs."""
        subprocess.run([*self._ssh(), "-O", "exit", self._address.host], capture_output=True, check=False)

    def _ssh(self) -> list[str]:
        return ["ssh", "-F", str(self.alias.config_file)]

    def _sent(self, argv: Sequence[str], *, quiet: bool = False) -> str:
        """The command as any login shell takes it."""
        return f"{_ANY_SHELL} {base64.b64encode(os.fsencode(f'exec {self._around(argv, quiet)}')).decode()}"

    def _around(self, argv: Sequence[str], quiet: bool) -> str:
        if argv[0] == "sudo":
            raise UsageError(
                f"the context {self._name} is a cluster that GpuCluster did not build: this needs root there",
                "docs/contexts.md lists what works on such clusters",
            )
        script = _AROUND.replace("printf", ": printf") if quiet else _AROUND
        return shlex.join(["sh", "-c", script, "sh", self._programs or "/usr/bin", *map(self.real, argv)])

    def _started(self, argv: Sequence[str], error: IO[bytes]) -> subprocess.Popen[bytes]:
        """stderr is a file: the ssh that keeps the connection may hold a pipe open for minutes."""
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
                    what = f"`{shlex.join(argv)[:80]}` on {self._address.host}"
                    raise RemoteError(f"{what} did not finish within {timeout_s:.0f} s") from None
                raise
            error.seek(0)
            said = error.read().decode(errors="replace")
        _, began, output = out.partition(_BEGIN)
        if not began:
            raise self._unreachable(process.returncode, said)
        if process.returncode == _SSH_FAILED:
            raise RemoteError(f"the connection to {self._address.host} broke: {_last(said)}")
        return process.returncode, output, said

    def _unreachable(self, code: int, said: str) -> RemoteError:
        host = self._address.host
        if code != _SSH_FAILED:
            return RemoteError(f"{host} did not run a command: {_last(said)}", f"try: ssh {self._address.text} true")
        return RemoteError(
            f"no SSH connection to {host}: {_last(said)}", f"this must work first: ssh {self._address.text}"
        )

    def _tail(
        self, path: str, offset: int, stop: Callable[[], bool], outlast: Outlast | None
    ) -> Iterator[bytes | None]:
        """The file's content from `offset` on; None: that is all. Ends early if the connection ends."""
        with tempfile.TemporaryFile() as error, self._started(tail_argv(path, offset), error) as process:
            try:
                yield from _pieces(process, stop)
            finally:
                process.kill()
                error.seek(0)
                said = error.read().decode(errors="replace")
        if process.returncode == _SSH_FAILED:
            lost = self._unreachable(_SSH_FAILED, said)
            if outlast is None:
                raise lost
            outlast(lost)


def _pieces(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> Iterator[bytes | None]:
    assert process.stdout is not None
    source, before, began, stopping = process.stdout.fileno(), b"", False, False
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
        if not began:
            before += data
            _, found, data = before.partition(_BEGIN)
            began = bool(found)
        if began and data:
            yield data


def _send(target: IO[bytes], data: bytes, sent: Sent | None) -> None:
    with contextlib.suppress(OSError, ValueError), target:
        streams.send(target.write, data, sent or (lambda count: None))


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line]
    return lines[-1] if lines else "ssh said nothing"
