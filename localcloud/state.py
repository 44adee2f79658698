"""The state directory of a cloud: its process, its address, and the names that a later `down` needs."""

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
    pace: str = ""  # its table in localcloud/pace at the start; "": none
    pace_scale: float = 1.0
    public_endpoints: bool = False

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
    """Creates the state directory, and closes it to other users: guests' disks in it may contain setuid programs, which
    no other user may run. Raises UsageError if another user owns it."""
    directory.mkdir(parents=True, exist_ok=True)
    if (owner := directory.stat().st_uid) != os.geteuid():
        raise UsageError(f"the state directory {directory} belongs to user {owner}; LOCALCLOUD_ROOT chooses another")
    directory.chmod(0o700)


def keep_secret(directory: Path) -> str:
    """The secret key of the clouds of this directory. It is created once, so that it stays valid in open shells."""
    path = directory / _SECRET
    if not path.exists():
        partial = directory / f"{_SECRET}.partial"
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(30) + "\n")
        partial.replace(path)
    return secret(directory)


def secret(directory: Path) -> str:
    """Raises OSError if no cloud was started, or another user started it."""
    return (directory / _SECRET).read_text().strip()


def write(directory: Path, cloud: Cloud) -> None:
    partial = directory / "cloud.json.partial"
    partial.write_text(json.dumps(asdict(cloud), indent=2) + "\n")
    partial.replace(directory / "cloud.json")


def read(directory: Path) -> Cloud | None:
    """None if no cloud was started, or its record cannot be read."""
    try:
        return Cloud(**json.loads((directory / "cloud.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def new_id() -> str:
    """4 hex digits that no other cloud of this machine has, running or left behind."""
    taken = {cloud.id for path in root().glob("*/cloud.json") if (cloud := read(path.parent))}
    while (candidate := secrets.token_hex(2)) in taken:
        pass
    return candidate
