"""The state directory of a cloud: who runs it, where it answers, and what a later `down` must end."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.machines import processes


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


def write(directory: Path, cloud: Cloud) -> None:
    directory.mkdir(parents=True, exist_ok=True)
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
