"""FSx's and EFS's servers as clients in a VPC find them: by name, by address, and past security groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import ec2_backends
from moto.efs.models import MountTarget, efs_backends
from moto.fsx.models import fsx_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import network
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.fsx import LustreFileSystem
from localcloud.machines.spec import FileServer, InstanceSpec, Unreachable

_NAME = re.compile(r"(?:[a-z0-9-]+\.)?(fs-[0-9a-f]+)\.(efs|fsx)\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
NFS_PORT = 2049


def resolve(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`. The caller holds the runtime's lock, as that of `find` does."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    addresses = [
        address
        for server_vpc, address, system in _servers()
        if (server_vpc, system.file_system_id) == (vpc_id, found[1])
    ]
    return addresses[:1] if record_type == "A" else []


def find(contents: Contents, client: InstanceSpec, address: str, *, tls: bool) -> FileServer | None:
    """See `Metadata.file_server`."""
    for vpc_id, server, system in _servers():
        if (vpc_id, server) != (client.vpc_id, address):
            continue
        lustre = isinstance(system, LustreFileSystem)
        _check_groups(client, address, network.LUSTRE_PORT if lustre else NFS_PORT)
        if not lustre and not tls and _over_tls_alone(system):
            raise PermissionError("access denied by server: the file system's policy wants TLS")
        root = contents.root(system.file_system_id)
        if not root.exists():
            contents.make(system.file_system_id, lustre=lustre)
        name = system.lustre_configuration["MountName"] if lustre else ""
        return FileServer("lustre" if lustre else "nfs", root, name, system.file_system_id)
    return None


def _servers() -> Iterator[tuple[str, str, Any]]:
    """VPC, address and the file system behind it."""
    for fsx in list(fsx_backends[ACCOUNT_ID].values()):
        for system in fsx.file_systems.values():
            if isinstance(system, LustreFileSystem):
                interface = ec2_backends[ACCOUNT_ID][system.backend.region_name].enis[system.interface_id]
                yield system.vpc_id, str(interface.private_ip_address), system
    for efs in list(efs_backends[ACCOUNT_ID].values()):
        for target in efs.mount_targets_by_id.values():
            yield target.vpc_id, target.ip_address, _system_of(target)


def _system_of(target: MountTarget) -> Any:
    return target._file_system


def _check_groups(client: InstanceSpec, address: str, port: int) -> None:
    ec2 = ec2_backends[ACCOUNT_ID][client.region]
    interface = next((each for each in ec2.enis.values() if address in _addresses(each)), None)
    groups = [group.id for group in interface.group_set] if interface else []
    ours, ip = client.interfaces[0].security_group_ids, client.interfaces[0].private_ip or ""
    if interface and not network.admits(ec2, groups, ours, ip, port):
        raise Unreachable(f"security groups let no TCP through to port {port} of {address}")


def _addresses(interface: Any) -> list[str]:
    """moto's mount targets give their interface a list for an address."""
    held = interface.private_ip_address
    return held if isinstance(held, list) else [held]


def _over_tls_alone(system: Any) -> bool:
    """Of the policy, the only statement that is evaluated: the one that denies what is in clear."""
    if not system.file_system_policy:
        return False
    statements = json.loads(system.file_system_policy)["Statement"]
    denials = [each for each in statements if each["Effect"] == "Deny"]
    wanted = {"Bool": {"aws:SecureTransport": "false"}}
    return any(each.get("Condition") == wanted for each in denials)
