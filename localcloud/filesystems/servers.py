"""How clients in a VPC reach the servers of FSx and EFS: by name, by address, and through security groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import network
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.fsx import LustreFileSystem
from localcloud.filesystems.volumes import NfsFileSystem
from localcloud.machines.spec import FileServer, InstanceSpec, Unreachable

_NAME = re.compile(r"(?:[a-z0-9-]+\.)?(fs-[0-9a-f]+)\.(efs|fsx)\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
NFS_PORT = 2049


@dataclass(frozen=True)
class _Server:
    vpc_id: str
    address: str
    groups: Sequence[str]
    system: Any
    """moto's record, with its `file_system_id`."""

    @property
    def lustre(self) -> bool:
        return isinstance(self.system, LustreFileSystem)

    @property
    def port(self) -> int:
        return network.LUSTRE_PORT if self.lustre else NFS_PORT


def resolve(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`. The caller holds the cloud's lock, and so does the caller of `find`."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    named = (server for server in _servers() if (server.vpc_id, server.system.file_system_id) == (vpc_id, found[1]))
    return [server.address for server in named][:1] if record_type == "A" else []


def find(contents: Contents, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
    """See `Metadata.file_server`."""
    server = next((each for each in _servers() if (each.vpc_id, each.address) == (client.vpc_id, address)), None)
    if server is None:
        return None
    ec2, primary = ec2_backends[ACCOUNT_ID][client.region], client.interfaces[0]
    if not network.admits(ec2, server.groups, primary.security_group_ids, primary.private_ip or "", server.port):
        raise Unreachable(f"security groups let no TCP through to port {server.port} of {address}")
    system = server.system
    if not server.lustre and not tls and _over_tls_alone(system):
        raise PermissionError("access denied by server: the file system's policy wants TLS")
    root = contents.root(system.file_system_id)
    if not root.exists():
        contents.make(system.file_system_id, lustre=server.lustre)
    name = system.lustre_configuration["MountName"] if server.lustre else ""
    return FileServer("lustre" if server.lustre else "nfs", root, name, system.file_system_id)


def exists(system_id: str) -> bool:
    return _system(system_id) is not None


def folder(contents: Contents, system_id: str, directory: str) -> Path:
    """A directory of a file system, for a service that mounts it. That of Lustre begins with the mount name. Raises
    FileNotFoundError."""
    system = _system(system_id)
    if system is None:
        raise FileNotFoundError(system_id)
    root, inside = contents.root(system_id), directory.strip("/")
    if not root.exists():
        contents.make(system_id, lustre=isinstance(system, LustreFileSystem))
    if isinstance(system, LustreFileSystem):
        inside = inside.removeprefix(str((system.lustre_configuration or {}).get("MountName"))).strip("/")
    found = (root / inside).resolve()
    if not found.is_relative_to(root.resolve()) or not found.is_dir():
        raise FileNotFoundError(f"{system_id}:{directory}")
    return found


def _system(system_id: str) -> Any:
    return next((server.system for server in _servers() if server.system.file_system_id == system_id), None)


def _servers() -> Iterator[_Server]:
    for fsx in list(fsx_backends[ACCOUNT_ID].values()):
        for system in fsx.file_systems.values():
            if isinstance(system, LustreFileSystem | NfsFileSystem):
                interface = ec2_backends[ACCOUNT_ID][system.backend.region_name].enis[system.interface_id]
                groups = [group.id for group in interface.group_set]
                yield _Server(system.vpc_id, str(interface.private_ip_address), groups, system)
    for efs in list(efs_backends[ACCOUNT_ID].values()):
        for target in efs.mount_targets_by_id.values():
            yield _Server(target.vpc_id, target.ip_address, target.security_groups or (), target._file_system)


def _over_tls_alone(system: Any) -> bool:
    """The only statement of the policy that is evaluated: a denial of mounts without TLS."""
    if not getattr(system, "file_system_policy", None):
        return False
    statements = json.loads(system.file_system_policy)["Statement"]
    denials = [each for each in statements if each["Effect"] == "Deny"]
    wanted = {"Bool": {"aws:SecureTransport": "false"}}
    return any(each.get("Condition") == wanted for each in denials)
