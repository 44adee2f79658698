"""NFS without a kernel that has it: the export of one guest is attached inside another.

The guest's `exportfs` keeps a record as the real one does; its `mount.nfs4` asks the host, through
a socket that only this guest has, and the host checks the record before it attaches anything.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localcloud.machines import graft
from localcloud.machines.processes import MachineError, run

ETAB = "var/lib/nfs/etab"
SERVICE_UP = "run/nfs-server.up"


class ShareError(Exception):
    """The mount is refused; `retry` where a real client would go on trying (the server is not up yet)."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


@dataclass(frozen=True)
class Export:
    path: PurePosixPath
    clients: str
    options: tuple[str, ...]

    def allows(self, client_ip: str) -> bool:
        if self.clients in ("*", ""):
            return True
        try:
            return ipaddress.ip_address(client_ip) in ipaddress.ip_network(self.clients, strict=False)
        except ValueError:  # a name pattern: names of instances are not told apart here
            return True


def parse_etab(text: str) -> list[Export]:
    """Lines of `path<TAB>clients(options)`, as exportfs writes them."""
    exports = []
    for line in text.splitlines():
        path, _, who = line.partition("\t")
        clients, _, options = who.strip().rstrip(")").partition("(")
        if path.startswith("/"):
            exports.append(Export(PurePosixPath(path), clients, tuple(options.split(","))))
    return exports


def find_export(exports: list[Export], path: str, client_ip: str) -> Export | None:
    wanted = PurePosixPath(path)
    fitting = [export for export in exports if wanted.is_relative_to(export.path) and export.allows(client_ip)]
    return max(fitting, key=lambda export: len(export.path.parts), default=None)


@dataclass(frozen=True)
class MountRequest:
    server: str  # address
    path: str
    target: str
    options: tuple[str, ...]


Leader = Callable[[str], int | None]


def mount(request: MountRequest, client_ip: str, client_pid: int, leader_at: Leader) -> None:
    """Attach what `request.server` exports at the target, in the mount namespace of `client_pid`."""
    server = leader_at(request.server)
    if server is None:
        raise ShareError(f"no running instance at {request.server}", retry=True)
    export = find_export(_exports_of(server), request.path, client_ip)
    if export is None:
        raise ShareError(f"access denied by server while mounting {request.server}:{request.path}")
    read_only = ["ro"] if "ro" in request.options or "ro" in export.options else []
    argv = [sys.executable, "-I", "-S", graft.__file__]
    try:
        run([*argv, str(server), request.path, str(client_pid), request.target, *read_only])
    except MachineError as error:
        raise ShareError(str(error).rpartition(": ")[2]) from error


def _exports_of(leader: int) -> list[Export]:
    """A server that has exported nothing yet looks like one whose NFS service is not up."""
    root = Path(f"/proc/{leader}/root")
    try:
        exports = parse_etab((root / ETAB).read_text()) if (root / SERVICE_UP).exists() else []
    except OSError:
        exports = []
    if not exports:
        raise ShareError("connection refused: no NFS service, or no exports", retry=True)
    return exports
