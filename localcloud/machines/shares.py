"""NFS and Lustre without kernel support: attaches a directory that a guest exports, or the cloud keeps, in another
guest.

The guest's `exportfs` keeps a record as the real one does. Its `mount.nfs4` asks the host, through a socket that only
this guest has, and the host checks the record before it attaches anything. The cloud's file systems, FSx and EFS, are
folders of this machine.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from localcloud.machines import graft
from localcloud.machines.processes import MachineError, run
from localcloud.machines.spec import FileServer

ETAB = "var/lib/nfs/etab"
SERVICE_UP = "run/nfs-server.up"
SHARED_MEMORY = "run/beegfs/etab"
"""Where a storage server of BeeGFS writes what it serves, as long as it does."""


class ShareError(Exception):
    """The mount is refused; `retry` if a real client would try again (the server is not up yet)."""

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
        except ValueError:  # a name pattern: instances' names are not compared here
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
    kind: str  # nfs | lustre | beegfs
    server: str  # address
    path: str
    target: str
    options: tuple[str, ...]

    @classmethod
    def parse(cls, asked: Mapping[str, Any]) -> MountRequest:
        options = tuple(str(option) for option in asked.get("options", ()))
        kind = str(asked.get("kind", "nfs"))
        return cls(kind, str(asked["server"]), str(asked["path"]), str(asked["target"]), options)


Leader = Callable[[str], int | None]


def mount(request: MountRequest, client_ip: str, client_pid: int, leader_at: Leader) -> None:
    """Attaches the directory that `request.server` exports at the target, in the mount namespace of `client_pid`."""
    server = leader_at(request.server)
    if server is None:
        raise ShareError(f"no running instance at {request.server}", retry=True)
    export = find_export(_exports_of(server, request.kind), request.path, client_ip)
    if export is None:
        raise ShareError(f"access denied by server while mounting {request.server}:{request.path}")
    _graft(server, request.path, request, client_pid, read_only="ro" in export.options)


def attach(request: MountRequest, server: FileServer, client_pid: int) -> None:
    """Attaches a folder of the cloud's own file system, the one of `request.server`."""
    if request.kind != server.kind:
        raise ShareError(f"the server at {request.server} speaks {server.kind}, not {request.kind}")
    name, _, below = request.path.strip("/").partition("/")
    if server.export and name != server.export:
        raise ShareError(f"{request.path} is not the file system's name")
    folder = PurePosixPath(below if server.export else request.path.strip("/"))
    if ".." in folder.parts or not (server.folder / folder).is_dir():
        raise ShareError(f"no such directory: {request.path}")
    _graft(os.getpid(), str(server.folder / folder), request, client_pid)


def _graft(from_pid: int, path: str, request: MountRequest, client_pid: int, *, read_only: bool = False) -> None:
    flags = ["ro"] if read_only or "ro" in request.options else []
    argv = [sys.executable, "-I", "-S", graft.__file__]
    try:
        run([*argv, str(from_pid), path, str(client_pid), request.target, *flags])
    except MachineError as error:
        raise ShareError(str(error).rpartition(": ")[2]) from error


def _exports_of(leader: int, kind: str) -> list[Export]:
    """A server that has exported nothing yet looks like one whose NFS service is not up."""
    root = Path(f"/proc/{leader}/root")
    try:
        if kind == "beegfs":
            exports = parse_etab((root / SHARED_MEMORY).read_text())
        else:
            exports = parse_etab((root / ETAB).read_text()) if (root / SERVICE_UP).exists() else []
    except OSError:
        exports = []
    if not exports:
        raise ShareError(f"connection refused: no {kind.upper()} service, or no exports", retry=True)
    return exports
