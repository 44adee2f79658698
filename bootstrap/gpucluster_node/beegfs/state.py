"""Messages between head node and nodes about BeeGFS, in files on /home: the head node's state, and a report of each
node.

Each file system is a generation. If a server is lost, the next generation starts: empty on every server, and filled
again from the source. A node only does what the phase of a generation asks for, so a server that has lost its memory
never joins again as if it had not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpucluster_node import files
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
    """The source of its data."""


@dataclass(frozen=True)
class State:
    """The head node's state.

    building: servers set themselves up, empty. filling: clients mount it, and servers copy the source. ready: jobs may
    use it. A generation moves on through the phases, and never back.
    """

    generation: str
    phase: Phase
    why: str
    """Why this generation exists: `new`, or what was lost."""
    settings: str
    """The settings that it was created with, from `describe`."""
    held: tuple[str, ...] = ()
    """Jobs that used the lost file system, and wait for this one."""


@dataclass(frozen=True)
class Report:
    """A node's report: the generations that it serves, mounts, and has filled its part of; empty if none."""

    node: str
    server: str = ""
    client: str = ""
    filled: str = ""
    error: str = ""
    users: tuple[str, ...] = ()
    """Jobs that had files open when the node unmounted an earlier generation."""


def settings(path: Path = BUNDLE / "beegfs.json") -> Settings:
    data = json.loads(path.read_text())
    return Settings(**{**data, "servers": tuple(data["servers"])})


def describe(settings: Settings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


def load_state(folder: Path = FOLDER) -> State | None:
    """None if the head node has not written a state yet."""
    data = _load(folder / "state.json")
    return State(**{**data, "held": tuple(data["held"])}) if data else None


def save_state(state: State, folder: Path = FOLDER) -> None:
    _save(folder / "state.json", asdict(state))


def load_reports(folder: Path = FOLDER) -> dict[str, Report]:
    """Reports by node. A file that is being written is skipped until the next look."""
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
    path.parent.mkdir(parents=True, exist_ok=True)
    files.put(path, json.dumps(data, indent=2) + "\n")
