"""How clients in a VPC find FSx's and EFS's servers, and which requests for files are allowed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.fsx.models import fsx_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import network, servers
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.fsx import LustreFileSystem
from localcloud.filesystems.objects import Store
from localcloud.filesystems.volumes import NfsFileSystem
from localcloud.guests import names
from localcloud.machines.spec import Hardware, InstanceSpec, Interface, Unreachable
from localcloud.runtime import Locks
from localcloud.testing import patience

REGION = "us-east-1"
ANYWHERE = [{"CidrIp": "0.0.0.0/0"}]


class Place:
    """A VPC with a client, a file system of each kind, and the groups of both."""

    def __init__(self, folder: Path) -> None:
        self.contents = Contents(folder, Store(ACCOUNT_ID, Locks()))
        self.ec2 = ec2_backends[ACCOUNT_ID][REGION]
        self.vpc = self.ec2.create_vpc("10.5.0.0/16")
        self.subnet = self.ec2.create_subnet(self.vpc.id, "10.5.1.0/24", availability_zone=f"{REGION}a")
        self.nodes, self.files = (self._group(name) for name in ("nodes", "files"))
        self.lustre = self._lustre()
        self.efs = self._efs()

    def _group(self, name: str) -> Any:
        return self.ec2.create_security_group(name, name, vpc_id=self.vpc.id)

    def _lustre(self) -> LustreFileSystem:
        fsx = fsx_backends[ACCOUNT_ID][REGION]
        interface = network.connect(self.ec2, self.subnet, [self.files.id])
        request = {"StorageCapacity": 1200, "SubnetIds": [self.subnet.id]}
        system = LustreFileSystem(request, fsx, interface.id, self.vpc.id)
        fsx.file_systems[system.file_system_id] = system
        self.contents.make(system.file_system_id, lustre=True)
        return system

    def _efs(self) -> Any:
        efs = efs_backends[ACCOUNT_ID][REGION]
        token = f"{time.monotonic_ns()}"
        system = efs.create_file_system(token, "", False, "", "", 0, "", False, [])
        efs.create_mount_target(system.file_system_id, self.subnet.id, None, [self.files.id])
        return system

    def let_in(self, port: int, **source: Any) -> None:
        given = {"ip_ranges": [], "source_groups": [], **source}
        self.ec2.authorize_security_group_ingress(self.files.id, "tcp", port, port, **given)

    def client(self, address: str = "10.5.1.200") -> InstanceSpec:
        hardware = Hardware(1, 1024, 0, None, 0, 0)
        interface = Interface("eni-1", "02:00:00:00:00:01", address, 0, 0, "interface", (self.nodes.id,))
        place = {"vpc_cidr": "10.5.0.0/16", "subnet_id": self.subnet.id, "subnet_cidr": "10.5.1.0/24"}
        return InstanceSpec(
            "i-1", "ami-1", "m6i.large", hardware, b"", ACCOUNT_ID, REGION, f"{REGION}a", self.vpc.id,
            public=False, internet=True, interfaces=(interface,), **place,
        )  # fmt: skip

    def address(self, system: Any, service: str) -> str:
        name = f"{system.file_system_id}.{service}.{REGION}.amazonaws.com"
        (found,) = names.resolve(self.vpc.id, name, "A") or [""]
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "filesystems")
    yield made
    made.contents.close()
    fsx_backends[ACCOUNT_ID][REGION].file_systems.clear()
    efs_backends[ACCOUNT_ID][REGION].reset()


def test_names_resolve_to_servers_in_their_own_vpc_only(place: Place) -> None:
    lustre, efs = place.address(place.lustre, "fsx"), place.address(place.efs, "efs")
    assert lustre.startswith("10.5.1.") and efs.startswith("10.5.1.") and lustre != efs
    assert names.resolve("vpc-other", place.lustre.dns_name, "A") == []
    assert names.resolve(place.vpc.id, f"fs-00000000.efs.{REGION}.amazonaws.com", "A") == []
    assert names.resolve(place.vpc.id, place.lustre.dns_name, "AAAA") == []


def test_security_groups_decide_which_clients_can_mount(place: Place) -> None:
    address = place.address(place.lustre, "fsx")

    def find() -> Any:
        return servers.find(place.contents, place.client(), address, tls=False)

    with pytest.raises(Unreachable, match=f"port 988 of {address}"):
        find()
    place.let_in(988, ip_ranges=[{"CidrIp": "10.9.0.0/16"}])
    with pytest.raises(Unreachable):
        find()
    place.let_in(988, source_groups=[{"GroupId": place.nodes.id}])
    found = find()
    assert (found.kind, found.export) == ("lustre", place.lustre.lustre_configuration["MountName"])
    assert found.folder.is_dir()
    place.ec2.revoke_security_group_egress(place.nodes.id, "-1", None, None, ANYWHERE)
    with pytest.raises(Unreachable):
        find()


def test_efs_requires_tls_if_its_policy_does(place: Place) -> None:
    place.let_in(2049, ip_ranges=ANYWHERE)
    address = place.address(place.efs, "efs")
    assert servers.find(place.contents, place.client(), address, tls=False)
    denial = {"Effect": "Deny", "Action": ["*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    place.efs.file_system_policy = json.dumps({"Statement": [denial]})
    with pytest.raises(PermissionError, match="access denied"):
        servers.find(place.contents, place.client(), address, tls=False)
    found = servers.find(place.contents, place.client(), address, tls=True)
    assert found and (found.kind, found.export) == ("nfs", "")


def test_openzfs_serves_its_volumes_over_nfs(place: Place) -> None:
    fsx = fsx_backends[ACCOUNT_ID][REGION]
    interface = network.connect(place.ec2, place.subnet, [place.files.id])
    request = {"FileSystemType": "OPENZFS", "SubnetIds": [place.subnet.id]}
    system = NfsFileSystem(request, fsx, interface.id, place.vpc.id)
    fsx.file_systems[system.file_system_id] = system
    place.contents.make(system.file_system_id, lustre=False)
    address = place.address(system, "fsx")
    with pytest.raises(Unreachable, match=f"port 2049 of {address}"):
        servers.find(place.contents, place.client(), address, tls=False)
    place.let_in(2049, ip_ranges=ANYWHERE)
    found = servers.find(place.contents, place.client(), address, tls=False)
    assert found and (found.kind, found.folder) == ("nfs", place.contents.root(system.file_system_id))


def test_users_may_restore_and_root_may_archive(place: Place) -> None:
    system_id = place.lustre.file_system_id
    (place.contents.root(system_id) / "file").write_bytes(b"x")

    def ask(action: str, path: str = "file", uid: int = 1000) -> dict[str, object]:
        return place.contents.ask({"action": action, "system": system_id, "path": path}, uid)

    assert ask("state") == {"flags": 0, "under_way": "NOOP"}
    for action in ("archive", "release", "remove"):
        with pytest.raises(PermissionError):
            ask(action)
    assert _in_time(lambda: ask("restore") and ask("action")["under_way"] == "NOOP")
    assert _in_time(lambda: ask("archive", uid=0) and ask("action")["under_way"] == "NOOP")
    assert ask("state")["flags"] == 0, "it is in no association"
    for path in ("../other", "nothing", "a/../../.."):
        with pytest.raises(OSError):
            ask("state", path)


def _in_time(probe: Callable[[], object]) -> bool:
    deadline = patience.seconds() + 10
    while not probe():
        if patience.seconds() > deadline:
            return False
        time.sleep(0.05)
    return True
