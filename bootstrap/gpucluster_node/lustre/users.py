"""Which jobs use a file system with `lifetime: jobs`, and where it is: files on /home, for the head node and compute
nodes.

FOLDER/NAME/state.json      the head node's state, see job_lustre.py
FOLDER/NAME/users/JOB       a job that uses the file system, which exists as long as there is one. Contains the job that
                            requested it: for the parts of a heterogeneous job, the first of them
FOLDER/NAME/mounts/JOB      the file system's address, for the prolog on the job's nodes. One for each job, because
                            NFS may cache a replaced file for a minute
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from gpucluster_node import files
from gpucluster_node.fleet import BUNDLE

FOLDER = Path("/home/gpucluster/lustre")
Phase = Literal["absent", "creating", "linking", "ready", "leaving", "deleting"]


@dataclass(frozen=True)
class State:
    """From absent to absent again. Jobs may use it while it is ready.

    leaving: only the head node has it, for its last check, and may decide to keep it.
    """

    phase: Phase = "absent"
    token: str = ""
    """Part of the token of its requests, so that FSx recognises a repeated one. No other file system has the same."""
    file_system_id: str = ""
    dns_name: str = ""
    mount_name: str = ""
    version: str = ""
    mount: str = ""
    for_everybody: str = ""
    """Its directories that everybody may write to, separated by commas."""
    unused_since: float | None = None
    """Seconds since the epoch; None while jobs use it."""
    reason: str = ""
    """Why it cannot be created or deleted."""


@dataclass(frozen=True)
class FileSystem:
    """The file system of one mount."""

    mount: str
    folder: Path

    @classmethod
    def of(cls, mount: str, folder: Path = FOLDER) -> FileSystem:
        return cls(mount, folder / mount.strip("/").replace("/", "-"))

    def make(self) -> None:
        for each in ("users", "mounts"):
            (self.folder / each).mkdir(mode=0o755, parents=True, exist_ok=True)

    def state(self) -> State:
        try:
            return State(**json.loads((self.folder / "state.json").read_text()))
        except FileNotFoundError:
            return State()

    def save(self, state: State) -> None:
        files.put(self.folder / "state.json", json.dumps(asdict(state), indent=2) + "\n")

    def register(self, job: str, parts: Sequence[str]) -> None:
        """parts: the job, or all jobs of a heterogeneous one."""
        for part in parts:
            files.put(self.folder / "users" / part, job)

    def tell_nodes(self, job: str, state: State) -> None:
        """For the nodes of the job's parts."""
        text = "".join(f"{line}\n" for line in (self.mount, state.dns_name, state.mount_name, state.version or "-"))
        for part in self._parts({job}):
            files.put(self.folder / "mounts" / part, text)

    def leave(self, jobs: Collection[str]) -> None:
        for part in self._parts(jobs):
            (self.folder / "mounts" / part).unlink(missing_ok=True)
            (self.folder / "users" / part).unlink(missing_ok=True)

    def users(self) -> set[str]:
        """The jobs that requested it."""
        return set(self._registered().values())

    def _parts(self, jobs: Collection[str]) -> list[str]:
        return [part for part, job in self._registered().items() if job in jobs]

    def _registered(self) -> dict[str, str]:
        """Part -> job. Files may appear and disappear during the listing."""
        found: dict[str, str] = {}
        for path in (self.folder / "users").iterdir():
            if not path.name.startswith("."):
                with suppress(FileNotFoundError):
                    found[path.name] = path.read_text()
        return found


def mounts(bundle: Path = BUNDLE) -> list[Mapping[str, Any]]:
    """The file systems with `lifetime: jobs` in the bundle's storage.json."""
    found = json.loads((bundle / "storage.json").read_text())["mounts"]
    return [each for each in found if each.get("lifetime") == "jobs"]
