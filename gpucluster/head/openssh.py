"""Access to a cluster with plain OpenSSH: the configuration that `ssh`, `scp`, `rsync` and editors read.

An alias is a folder of that name with a key, the host keys and a configuration. ssh starts `gpucluster tunnel` as its
ProxyCommand. That pushes the key, which an instance then accepts for a minute, and stores the host key that the
cluster has published, before it opens the tunnel: ssh reads the file when the server has sent its own key.

`ALIAS` is the head node, `train-1.ALIAS` a compute node. A name such as ALIAS-train-1 could be another cluster's alias.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.head.remote import Remote, new_private_key

FOLDER = "gpucluster"
"""In ~/.ssh: one folder for each alias."""
INCLUDE = f"Include {FOLDER}/*/config"
_INCLUDED = re.compile(rf"^\s*include\s.*\b{FOLDER}/\*/config\b", re.IGNORECASE | re.MULTILINE)
_NODE_KEYS = "/home/gpucluster/known_hosts"
"""On the head node: each node's host keys, in a file of its name (bootstrap/steps/jobs/ssh_trust.sh)."""

_CONFIG = """\
Host {alias} *.{alias}
  User {user}
  ProxyCommand {proxy} %h
  IdentityFile "{folder}/id_ed25519"
  IdentitiesOnly yes
  UserKnownHostsFile "{folder}/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  ServerAliveInterval 30
"""


def default_name(cluster: str) -> str:
    """In lower case, because ssh looks up host keys by the lower-case name."""
    return f"gpucluster-{cluster.lower()}"


def check_name(name: str) -> str:
    """Raises UsageError."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", name):
        raise UsageError(
            f"{name!r} cannot be an alias: allowed are lower-case letters, digits, hyphens and underscores",
            "for example: gpucluster ssh-config --host gpu",
        )
    return name


@dataclass(frozen=True)
class Alias:
    folder: Path
    """Absolute. Its name is the alias."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def config_file(self) -> Path:
        return self.folder / "config"

    def host(self, node: str | None) -> str:
        """None: the head node."""
        return f"{node}.{self.name}" if node else self.name

    def node(self, host: str) -> str | None:
        """The reverse. Raises UsageError."""
        if host == self.name:
            return None
        node, dot, alias = host.partition(".")
        if not dot or alias != self.name or not re.fullmatch(r"[a-z0-9-]+", node):
            raise UsageError(
                f"{host!r} is not a host of this cluster", f"{self.name} is the head node, train-1.{self.name} a node"
            )
        return node

    def config(self, cluster_file: Path, profile: str | None) -> str:
        """`profile`: AWS's. An editor that the desktop started does not have the shell's variables, and later they may
        have changed: the key must be pushed for the user whom ssh logs in as."""
        environment = [*[f"AWS_PROFILE={profile}"] * bool(profile), f"{account.VARIABLE}={account.user()}"]
        program = [sys.executable, "-P", "-m", "gpucluster.cli", "-c", str(cluster_file.resolve())]
        proxy = shlex.join(["env", *environment, *program, "tunnel", str(self.folder)])
        return _CONFIG.format(
            alias=self.name,
            user=account.user(),
            proxy=proxy.replace("%", "%%"),
            folder=str(self.folder).replace("%", "%%"),
        )

    def refuse_another(self, cluster_file: Path) -> None:
        """Raises UsageError if the alias is that of another cluster file: every program that uses it would work on the
        other cluster from now on, without a word. A file that no longer exists has no claim."""
        held = self._cluster_file()
        if held and held != cluster_file.resolve() and held.exists():
            raise UsageError(
                f"the alias {self.name} is that of the cluster in {held}, not of {cluster_file.resolve()}",
                f"give this cluster another one, for example with --host {self.name}-2; --remove removes that one",
            )

    def _cluster_file(self) -> Path | None:
        """That of the stored configuration."""
        text = self.config_file.read_text(encoding="utf-8") if self.config_file.exists() else ""
        proxy = re.search(r"^ *ProxyCommand (.*)$", text, re.MULTILINE)
        words = shlex.split(proxy[1].replace("%%", "%")) if proxy else []
        return Path(words[words.index("-c") + 1]) if "-c" in words else None

    def make(self) -> None:
        """The folder, and the key if there is none yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._key_file.exists():
            with contextlib.suppress(FileExistsError):  # another program was faster
                _write(self._key_file, new_private_key(), os.link)

    def write_config(self, text: str) -> None:
        """Only the user may write it: ssh refuses to start if others may write a file that it includes."""
        _write(self.config_file, text, os.replace)

    def public_key(self) -> str:
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_ssh_private_key(self._key_file.read_bytes(), None).public_key()
        encoded = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return f"{encoded.decode()} gpucluster"

    def trust(self, host: str, keys: Iterable[str]) -> None:
        """Makes these keys, `ssh-ed25519 AAAA…`, the only known ones of this host."""
        file = self.folder / "known_hosts"
        with _locked(self.folder):
            before = file.read_text().splitlines() if file.exists() else []
            others = [line for line in before if not line.startswith(f"{host} ")]
            _write(file, "".join(f"{line}\n" for line in (*others, *(f"{host} {key}" for key in keys))), os.replace)

    @property
    def _key_file(self) -> Path:
        return self.folder / "id_ed25519"


def of_user(name: str) -> Alias:
    """The alias for the user's own ssh."""
    return Alias(Path.home() / ".ssh" / FOLDER / name)


@contextlib.contextmanager
def temporary(cluster: str, cluster_file: Path) -> Iterator[Alias]:
    """A configuration for one program that we start; it is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-") as folder:
        alias = Alias(Path(folder).resolve() / default_name(cluster))
        alias.make()
        alias.config_file.write_text(alias.config(cluster_file, None), encoding="utf-8")
        yield alias


def include(file: Path) -> bool:
    """Makes the user's ssh read the aliases. False if it does already. The rest of the file is not changed."""
    target = Path(os.path.realpath(file))  # many users keep theirs elsewhere, behind a link
    text = target.read_text(encoding="utf-8", errors="surrogateescape") if target.exists() else ""
    if _INCLUDED.search(text):
        return False
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Before the first Host: after one, the line would apply to that host only.
    whole = f"# aliases of `gpucluster ssh-config --write`\n{INCLUDE}\n" + (f"\n{text}" if text else "")
    _write(target, whole, os.replace, mode=target.stat().st_mode & 0o777 if target.exists() else 0o600)
    return True


def node_keys(head: Remote, node: str) -> list[str]:
    """A compute node's host keys, as it wrote them to /home when it booted. Raises RemoteError."""
    lines = head.get(f"{_NODE_KEYS}/{node}").decode().splitlines()
    return [line.partition(" ")[2] for line in lines]


def _write(file: Path, text: str, place: Callable[[str, Path], None], mode: int = 0o600) -> None:
    """Writes the file atomically. `place`: os.replace, or os.link if the file must not exist yet."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as new:
            new.write(text)
        os.chmod(name, mode)
        place(name, file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
