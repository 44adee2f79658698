"""What head and nodes tell one another of BeeGFS, in files on /home: the head's word, and a report of each node.

The file system is a generation. Where a server is lost the next one begins: empty on every server, filled again from
where it was filled before. A node does for a generation only what its phase asks for, so that a server which has lost
its memory never joins again as if it had not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpucluster_node.fleet import BUNDLE

FOLDER = Path("/home/gpucluster/beegfs")
Phase = Literal["building", "filling", "ready"]


@dataclass(frozen=True)
class Settings:
    """beegfs.json of the bundle."""

    mount: str
    scope: str
    partition: str
    servers: tuple[str, ...]
    source: str | None
    export: str | None
    version: str
    gib_per_node: int
    owner: str = "root"
    """Of what it is filled with."""


@dataclass(frozen=True)
class State:
    """The head's word.

    building: servers set themselves up, empty. filling: clients mount it, and servers copy what it is filled from.
    ready: jobs may use it. A generation goes from one to the next, and never back.
    """

    generation: str
    phase: Phase
    why: str
    """There is this generation: `new`, or what was lost."""
    settings: str
    """That it was made with, as `describe` says them."""
    held: tuple[str, ...] = ()
    """Jobs that used what was lost, and wait for the file system."""


@dataclass(frozen=True)
class Report:
    """A node's: the generations that it serves, mounts, and has filled its part of; empty where it does not."""

    node: str
    server: str = ""
    client: str = ""
    filled: str = ""
    error: str = ""
    users: tuple[str, ...] = ()
    """Jobs that had files open when the node let go of an earlier generation."""


def settings(path: Path = BUNDLE / "beegfs.json") -> Settings:
    data = json.loads(path.read_text())
    return Settings(**{**data, "servers": tuple(data["servers"])})


def describe(settings: Settings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


def load_state(folder: Path = FOLDER) -> State | None:
    """None where the head has said nothing yet."""
    data = _load(folder / "state.json")
    return State(**{**data, "held": tuple(data["held"])}) if data else None


def save_state(state: State, folder: Path = FOLDER) -> None:
    _save(folder / "state.json", asdict(state))


def load_reports(folder: Path = FOLDER) -> dict[str, Report]:
    """By node. One that is just being written is left out: it comes with the next look."""
    found = (_load(path) for path in (folder / "nodes").glob("*.json"))
    reports = (Report(**{**data, "users": tuple(data["users"])}) for data in found if data)
    return {report.node: report for report in reports}


def save_report(report: Report, folder: Path = FOLDER) -> None:
    _save(folder / "nodes" / f"{report.node}.json", asdict(report))


def _load(path: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return data


def _save(path: Path, data: Mapping[str, Any]) -> None:
    """Readers see the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(data, indent=2) + "\n")
    new.replace(path)
