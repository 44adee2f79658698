"""The state directory of a cloud: who runs it, where it answers, and what a later `down` must end."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.errors import UsageError
from localcloud.machines import processes

ACCESS_KEY_ID = "localcloud"
_SECRET = "secret-access-key"


@dataclass(frozen=True)
class Cloud:
    """What cloud.json records. `start_time` guards against a pid that was given to another process."""

    name: str
    id: str  # 4 hex digits that every network namespace, link and cgroup of this cloud carries
    pid: int
    start_time: int  # clock ticks since the machine booted
    port: int
    endpoint_url: str
    boot: bool
    pace: str = ""  # of which table in localcloud/pace, as it starts; "": none
    pace_scale: float = 1.0

    def alive(self) -> bool:
        return processes.is_running(self.pid, self.start_time)


def root() -> Path:
    """Where clouds keep their state; LOCALCLOUD_ROOT moves it."""
    if chosen := os.environ.get("LOCALCLOUD_ROOT"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/localcloud")
    return Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local/state")) / "localcloud"


def state_dir(name: str) -> Path:
    return root() / name


def own(directory: Path) -> None:
    """Make the state directory, and shut it: a guest's disk below it may hold programs that run as root (setuid), and
    nobody else may start them. Raises UsageError where it is somebody else's."""
    directory.mkdir(parents=True, exist_ok=True)
    if (owner := directory.stat().st_uid) != os.geteuid():
        raise UsageError(f"the state directory {directory} belongs to user {owner}; LOCALCLOUD_ROOT chooses another")
    directory.chmod(0o700)


def keep_secret(directory: Path) -> str:
    """The secret key of the clouds of this directory; made once, so that a shell which has it can go on using it."""
    path = directory / _SECRET
    if not path.exists():
        partial = directory / f"{_SECRET}.partial"
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(30) + "\n")
        partial.replace(path)
    return secret(directory)


def secret(directory: Path) -> str:
    """Raises OSError where no cloud was started, or by somebody else."""
    return (directory / _SECRET).read_text().strip()


def write(directory: Path, cloud: Cloud) -> None:
    partial = directory / "cloud.json.partial"
    partial.write_text(json.dumps(asdict(cloud), indent=2) + "\n")
    partial.replace(directory / "cloud.json")


def read(directory: Path) -> Cloud | None:
    """None where no cloud was started, or its record is unreadable (cut off while written)."""
    try:
        return Cloud(**json.loads((directory / "cloud.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def new_id() -> str:
    """4 hex digits that no other cloud of this machine has, alive or left over."""
    taken = {cloud.id for path in root().glob("*/cloud.json") if (cloud := read(path.parent))}
    while (candidate := secrets.token_hex(2)) in taken:
        pass
    return candidate
