"""FSx for OpenZFS and ONTAP, as far as clients mount them over NFS: file systems, virtual machines and volumes.

A volume is a folder of its file system. Kept without effect: exports with their options, quotas, compression, tiering.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.ec2.models import ec2_backends
from moto.fsx.models import FileSystem, FSxBackend
from moto.fsx.responses import FSxResponse

from localcloud.filesystems import network
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.lustre import refused

Record = dict[str, Any]
CONFIGURATIONS = {"OPENZFS": "OpenZFSConfiguration", "ONTAP": "OntapConfiguration"}
EXPORTS = [{"ClientConfigurations": [{"Clients": "*", "Options": ["rw", "crossmnt"]}]}]
"""FSx's default for a root volume: API_CreateOpenZFSVolumeConfiguration, NfsExports."""


class NfsFileSystem(FileSystem):
    """moto's file system, with the fields that moto lacks. It is available at once; AWS takes minutes."""

    def __init__(self, request: Record, backend: FSxBackend, interface_id: str, vpc_id: str) -> None:
        kind = str(request["FileSystemType"])
        super().__init__(
            account_id=backend.account_id,
            region_name=backend.region_name,
            file_system_type=kind,
            storage_capacity=request.get("StorageCapacity", 0),
            storage_type=request.get("StorageType", "SSD"),
            subnet_ids=request["SubnetIds"],
            security_group_ids=[],
            tags=None,
            kms_key_id=request.get("KmsKeyId"),
            windows_configuration=None,
            lustre_configuration=None,
            ontap_configuration=request.get("OntapConfiguration"),
            open_zfs_configuration=dict(request.get("OpenZFSConfiguration") or {}),
            backend=backend,
        )
        self.file_system_id = f"fs-{secrets.token_hex(9)[:17]}"
        self.dns_name = f"{self.file_system_id}.fsx.{backend.region_name}.amazonaws.com"
        self.resource_arn = f"arn:aws:fsx:{backend.region_name}:{backend.account_id}:file-system/{self.file_system_id}"
        self.interface_id, self.vpc_id, self.created = interface_id, vpc_id, time.time()
        self.machines: dict[str, Record] = {}
        self.volumes: dict[str, Record] = {}
        backend.tagger.tag_resource(self.resource_arn, request.get("Tags") or [])

    def to_dict(self) -> Record:
        shown: Record = {
            **super().to_dict(),
            "Lifecycle": "AVAILABLE",
            "CreationTime": self.created,
            "OwnerId": self.backend.account_id,
            "VpcId": self.vpc_id,
            "NetworkInterfaceIds": [self.interface_id],
        }
        if self.file_system_type == "ONTAP":
            shown.pop("DNSName")  # clients mount from a virtual machine
        return shown


class Volumes(FSxResponse):
    """The actions of these two kinds."""

    contents: Contents | None

    def make_over_nfs(self, request: Record) -> NfsFileSystem:
        ec2 = ec2_backends[self.current_account][self.region]
        groups = request.get("SecurityGroupIds") or []
        subnet = network.subnet_of(ec2, request["SubnetIds"][0], groups)
        interface = network.connect(ec2, subnet, groups)
        system = NfsFileSystem(request, self.fsx_backend, interface.id, subnet.vpc_id)
        self.fsx_backend.file_systems[system.file_system_id] = system
        if self.contents:
            self.contents.make(system.file_system_id, lustre=False)
        if system.file_system_type == "OPENZFS":
            root = self._add(system, "fsx", {"VolumePath": "/fsx", "NfsExports": EXPORTS})
            system.open_zfs_configuration = {**(system.open_zfs_configuration or {}), "RootVolumeId": root["VolumeId"]}
        return system

    def remove_over_nfs(self, system: NfsFileSystem) -> None:
        if self.contents:
            self.contents.remove(system.file_system_id)
        network.disconnect(ec2_backends[self.current_account][self.region], system.interface_id)

    def create_volume(self) -> str:
        request = json.loads(self.body)
        kind = str(request["VolumeType"])
        given = dict(request.get(CONFIGURATIONS[kind]) or {})
        if kind == "OPENZFS":
            system, parent = self._volume(str(given["ParentVolumeId"]))
            above = parent["OpenZFSConfiguration"]
            path = f"{above['VolumePath']}/{request['Name']}"
            given = {"NfsExports": above["NfsExports"], **given, "VolumePath": path}
            return self._shown_volume(system, request, given)
        system = self._machine(str(given["StorageVirtualMachineId"]))[0]
        return self._shown_volume(system, request, given)

    def _shown_volume(self, system: NfsFileSystem, request: Record, settings: Record) -> str:
        return json.dumps({"Volume": self._add(system, request["Name"], settings)})

    def _add(self, system: NfsFileSystem, name: str, settings: Record) -> Record:
        volume_id = f"fsvol-{secrets.token_hex(9)[:17]}"
        zfs = system.file_system_type == "OPENZFS"
        arn = f"arn:aws:fsx:{self.region}:{self.current_account}:volume"
        record = {
            "VolumeId": volume_id,
            "Name": name,
            "VolumeType": system.file_system_type,
            "FileSystemId": system.file_system_id,
            "Lifecycle": "AVAILABLE" if zfs else "CREATED",
            "CreationTime": time.time(),
            "ResourceARN": f"{arn}/{system.file_system_id}/{volume_id}",
            CONFIGURATIONS[system.file_system_type]: settings,
        }
        system.volumes[volume_id] = record
        path = settings.get("VolumePath") or settings.get("JunctionPath")
        if self.contents and path:
            folder = self.contents.root(system.file_system_id) / str(path).strip("/")
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o1777)  # OpenZFS does that: aws-parallelcluster-cookbook, lustre/partial/_mount_unmount.rb
        return record

    def describe_volumes(self) -> str:
        ids = json.loads(self.body or "{}").get("VolumeIds")
        every = {volume_id: each for system in self._over_nfs() for volume_id, each in system.volumes.items()}
        found = [self._volume(volume_id)[1] for volume_id in ids] if ids else list(every.values())
        return json.dumps({"Volumes": found})

    def create_storage_virtual_machine(self) -> str:
        request = json.loads(self.body)
        system = self.fsx_backend.file_systems.get(request["FileSystemId"])
        if not isinstance(system, NfsFileSystem) or system.file_system_type != "ONTAP":
            raise refused(f"{request['FileSystemId']} is not an ONTAP file system")
        machine_id = f"svm-{secrets.token_hex(9)[:17]}"
        name = f"{machine_id}.{system.file_system_id}.fsx.{self.region}.amazonaws.com"
        arn = f"arn:aws:fsx:{self.region}:{self.current_account}:storage-virtual-machine"
        record = {
            "StorageVirtualMachineId": machine_id,
            "FileSystemId": system.file_system_id,
            "Name": request["Name"],
            "Lifecycle": "CREATED",
            "CreationTime": time.time(),
            "Endpoints": {"Nfs": {"DNSName": name}},
            "ResourceARN": f"{arn}/{system.file_system_id}/{machine_id}",
        }
        system.machines[machine_id] = record
        return json.dumps({"StorageVirtualMachine": record})

    def describe_storage_virtual_machines(self) -> str:
        ids = json.loads(self.body or "{}").get("StorageVirtualMachineIds")
        every = {machine_id: each for system in self._over_nfs() for machine_id, each in system.machines.items()}
        found = [self._machine(machine_id)[1] for machine_id in ids] if ids else list(every.values())
        return json.dumps({"StorageVirtualMachines": found})

    def _over_nfs(self) -> list[NfsFileSystem]:
        return [each for each in self.fsx_backend.file_systems.values() if isinstance(each, NfsFileSystem)]

    def _volume(self, volume_id: str) -> tuple[NfsFileSystem, Record]:
        for system in self._over_nfs():
            if volume_id in system.volumes:
                return system, system.volumes[volume_id]
        raise JsonRESTError("VolumeNotFound", f"Volume '{volume_id}' does not exist.")

    def _machine(self, machine_id: str) -> tuple[NfsFileSystem, Record]:
        for system in self._over_nfs():
            if machine_id in system.machines:
                return system, system.machines[machine_id]
        raise JsonRESTError("StorageVirtualMachineNotFound", f"Storage virtual machine '{machine_id}' does not exist.")
