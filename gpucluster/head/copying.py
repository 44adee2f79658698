"""scp and rsync over the tunnel: their argument lists and their errors. `openssh` configures the connection."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import GpuClusterError, RemoteError, UsageError
from gpucluster.head.openssh import Alias

HEAD = "head"
LOST = (10, 12, 30, 35, 255)
"""rsync's exit codes where the connection broke (man rsync, EXIT VALUES), and ssh's own."""
LONG_ENOUGH_S = 60
"""AWS ends each tunnel after an hour: only a connection that lasted this long is made again."""
_PARTIAL = ".rsync-partial"
_SHOWN = 5


@dataclass(frozen=True)
class Place:
    host: str | None
    """None: this machine; HEAD; or a compute node."""
    path: str

    @classmethod
    def parse(cls, text: str) -> Place:
        """As in scp, a path with a colon before its first slash is remote. `:path` is on the head node."""
        host, colon, path = text.partition(":")
        return cls(host or HEAD, path) if colon and "/" not in host else cls(None, text)

    def __str__(self) -> str:
        """As the user writes it."""
        return self.path if self.host is None else f"{'' if self.host == HEAD else self.host}:{self.path}"

    def below(self, name: str) -> Place:
        return Place(self.host, f"{self.path.rstrip('/') or '/'}/{name}".replace("//", "/") if self.path else name)

    def word(self, alias: Alias) -> str:
        if self.host is None:
            return f"./{self.path}" if self.path.startswith("-") else self.path
        # both start in the user's home, and rsync does not expand ~
        return f"{alias.host(None if self.host == HEAD else self.host)}:{self.path.removeprefix('~/')}"


@dataclass(frozen=True)
class Copy:
    sources: Sequence[Place]
    target: Place

    @classmethod
    def parse(cls, words: Sequence[str]) -> Copy:
        """Raises UsageError if both paths are local, both are remote, or a local path does not exist."""
        *sources, target = map(Place.parse, words)
        hosts = {place.host for place in sources}
        if len(hosts) != 1 or (hosts == {None}) == (target.host is None):
            hint = f"write :PATH for the head node, or NODE:PATH for a node: {words[0]} :{words[-1]}"
            if target.host:
                hint = f"copy it to this machine first: gpucluster cp {words[0]} ."
            raise UsageError("one path must be on the cluster, and the other one on this machine", hint)
        return cls(sources, target)

    @property
    def remote(self) -> str:
        return self.sources[0].host or self.target.host or HEAD

    def check(self, *, recursive: bool) -> None:
        """Checks that need no connection. Raises UsageError."""
        for source in self.sources if self.target.host else ():
            path = Path(source.path)
            if not path.exists():
                raise UsageError(f"{source.path}: no such file or folder on this machine")
            if path.is_dir() and not recursive:
                raise UsageError(f"{source.path} is a folder", "use -r, or `gpucluster sync`")
        if self.target.host is None:
            _check_target(Path(self.target.path), many=len(self.sources) > 1)


def _check_target(path: Path, *, many: bool) -> None:
    if not path.is_dir() and (many or not path.absolute().parent.is_dir()):
        raise UsageError(f"{path if many else path.parent}: there is no such folder on this machine", "create it first")


def left_by(copy: Copy) -> str:
    """What an interrupted scp leaves: it writes to the file's own name."""
    target, again = copy.target, "run the same command again, or `gpucluster sync`, which continues"
    if len(copy.sources) > 1:
        return f"the last file in {target} may be incomplete: {again}"
    name = copy.sources[0].path.rstrip("/").rpartition("/")[2]
    inside = target.below(name)
    is_here = target.host is None
    if Path(target.path).is_dir() if is_here else target.path in ("", "~") or target.path.endswith("/"):
        return f"{inside} may be incomplete: {again}"
    unknown = not is_here and target.path.rpartition("/")[2] != name
    which = f"{target}, or {inside} if it is a folder," if unknown else str(target)
    return f"{which} may be incomplete: {again}"


def scp_argv(alias: Alias, copy: Copy, *, recursive: bool) -> list[str]:
    words = [place.word(alias) for place in (*copy.sources, copy.target)]
    return ["scp", "-F", str(alias.config_file), *["-r"] * recursive, "--", *words]


def rsync_argv(alias: Alias, copy: Copy, options: Sequence[str], *, inplace: bool = False) -> list[str]:
    """The part of a broken transfer is kept beside its unchanged file, and the next run continues it. `inplace`: files
    that only grow and that a program reads meanwhile stay the same files."""
    words = [place.word(alias) for place in (*copy.sources, copy.target)]
    return [
        *("rsync", "--archive", "--no-owner", "--no-group", "--protect-args"),
        "--inplace" if inplace else f"--partial-dir={_PARTIAL}",
        *(f"--rsh=ssh -F {shlex.quote(str(alias.config_file))}", *options, "--", *words),
    ]


PROGRESS = "--info=progress2"
"""rsync's line of progress: bytes so far, percentage and speed."""


def require(program: str) -> None:
    """Raises UsageError if this machine has no such program."""
    if shutil.which(program) is None:
        package = {"scp": "openssh-client"}.get(program, program)
        raise UsageError(f"{program} is not installed on this machine", f"sudo apt-get install {package}")
    if program == "rsync" and _is_openrsync():
        raise UsageError("this machine's rsync is openrsync, which lacks options that sync needs", "brew install rsync")


def _is_openrsync() -> bool:
    """macOS's own."""
    done = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=False)
    return "openrsync" in done.stdout


Call = Callable[[Sequence[str]], tuple[int, list[str]]]


def call(argv: Sequence[str], stdout: int = 2) -> tuple[int, list[str]]:
    """Exit code, and the lines of stderr. The program's stdout, its progress, goes to our stderr by default."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, said = process.communicate()
        except BaseException:
            process.terminate()
            raise
    return process.returncode, said.splitlines()


def run(argv: Sequence[str], host: str, tell: Callable[[str], None]) -> None:
    """Raises the program's error, and shows its other output."""
    _report(argv[0], *call(argv), host, tell)


def run_on(
    argv: Sequence[str],
    host: str,
    tell: Callable[[str], None],
    call: Call = call,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """As `run`, but starts the program again if a connection broke that had lasted for a while."""
    while True:
        began = clock()
        exit_code, said = call(argv)
        lasted_s = clock() - began
        if exit_code not in LOST or lasted_s < LONG_ENOUGH_S:
            break
        tell(f"the connection broke after {lasted_s / 60:.0f} min: connecting again and continuing")
    _report(argv[0], exit_code, said, host, tell)


def _report(program: str, exit_code: int, said: Sequence[str], host: str, tell: Callable[[str], None]) -> None:
    if exit_code:
        raise failure(program, exit_code, said, host)
    for line in said:
        tell(line)


_GREETED = ("is your shell clean?", "Received message too long")
"""rsync (check_protocol in its compat.c), and scp (get_msg_extended in OpenSSH's sftp-client.c): they take what the
account's files print for their protocol."""
_QUIET = "let it print only in a terminal: put `[[ $- == *i* ]] || return` above that line"


def failure(program: str, exit_code: int, said: Sequence[str], host: str) -> GpuClusterError:
    """One message: that of `gpucluster tunnel`, or else that of the program."""
    where = "the head node" if host == HEAD else host
    again = "run the same command again: it continues where it stopped" if program == "rsync" else None
    if ours := [index for index, line in enumerate(said) if line.startswith("error: ")]:
        hints = [line.removeprefix("hint: ") for line in said[ours[0] + 1 :] if line.startswith("hint: ")]
        return RemoteError(said[ours[0]].removeprefix("error: "), hints[0] if hints else again)
    if any(mark in line for line in said for mark in _GREETED):
        return RemoteError(f"a file such as ~/.bashrc on {where} prints text, which {program} cannot read", _QUIET)
    if any(line.startswith("Host key verification failed") for line in said):
        return RemoteError(
            f"the host key of {where} is not the one that it published: not connecting",
            "if it was replaced just now, try again in a minute",
        )
    if any(f"{program}: command not found" in line or f"{program}: not found" in line for line in said):
        return RemoteError(
            f"{program} is not installed on {where}", f"gpucluster ssh -- sudo apt-get install -y {program}"
        )
    if missing := [line for line in said if "No such file or directory" in line]:
        return UsageError(f"no such file on {where}: {missing[0]}")
    text = "; ".join(said[:_SHOWN]) or f"exit code {exit_code}"
    if program == "rsync" and exit_code == 1:  # man rsync: syntax or usage error
        return UsageError(text)
    return RemoteError(f"{program}: {text}", again if exit_code in LOST else None)
