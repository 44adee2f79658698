"""FSx for Lustre: file systems that look like AWS's, with an interface in their subnet, and their links to S3.

OpenZFS and ONTAP are in volumes.py.
"""

from __future__ import annotations

import json
import secrets
import string
import time
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.fsx.models import FileSystem, FSxBackend
from moto.logs.models import logs_backends

from localcloud.filesystems import links, lustre, network, tasks
from localcloud.filesystems.contents import Contents
from localcloud.filesystems.volumes import CONFIGURATIONS, NfsFileSystem, Volumes
from localcloud.validation import stores

Record = dict[str, Any]
_BETWEEN_GROWTHS_S = 6 * 3600.0


class LustreFileSystem(FileSystem):
    """moto's file system, with the fields that moto lacks. It is available at once; AWS takes five minutes or more."""

    def __init__(self, request: Record, backend: FSxBackend, interface_id: str, vpc_id: str) -> None:
        given = {**request, "LustreConfiguration": _completed(request)}
        super().__init__(
            account_id=backend.account_id,
            region_name=backend.region_name,
            file_system_type="LUSTRE",
            storage_capacity=request["StorageCapacity"],
            storage_type=request.get("StorageType", "SSD"),
            subnet_ids=request["SubnetIds"],
            security_group_ids=request.get("SecurityGroupIds") or [],
            tags=None,
            kms_key_id=request.get("KmsKeyId"),
            windows_configuration=None,
            lustre_configuration=given["LustreConfiguration"],
            ontap_configuration=None,
            open_zfs_configuration=None,
            backend=backend,
        )
        self.file_system_id = f"fs-{secrets.token_hex(9)[:17]}"
        self.dns_name = f"{self.file_system_id}.fsx.{backend.region_name}.amazonaws.com"
        self.resource_arn = f"arn:aws:fsx:{backend.region_name}:{backend.account_id}:file-system/{self.file_system_id}"
        self.version = request.get("FileSystemTypeVersion") or _default_version(given["LustreConfiguration"])
        self.interface_id = interface_id
        self.request = request
        self.vpc_id = vpc_id
        self.created = time.time()
        self.grown = 0.0  # when it was made larger, in seconds since the epoch
        self.associations: dict[str, Record] = {}
        self.tasks: dict[str, Record] = {}
        backend.tagger.tag_resource(self.resource_arn, request.get("Tags") or [])

    def to_dict(self) -> Record:
        """The answer of DescribeFileSystems. As on AWS, it does not contain the request's security groups."""
        shown: Record = super().to_dict()
        shown.pop("SecurityGroupIds", None)
        return {
            **shown,
            "FileSystemTypeVersion": self.version,
            "Lifecycle": "AVAILABLE",
            "CreationTime": self.created,
            "OwnerId": self.backend.account_id,
            "VpcId": self.vpc_id,
            "NetworkInterfaceIds": [self.interface_id],
        }


def _completed(request: Record) -> Record:
    """The request's LustreConfiguration with AWS's defaults and a mount name."""
    given: Record = dict(request.get("LustreConfiguration") or {})
    deployment = given.setdefault("DeploymentType", "SCRATCH_1")
    given.setdefault("DataCompressionType", "NONE")
    given.setdefault("WeeklyMaintenanceStartTime", "1:05:00")
    letters = string.ascii_lowercase + string.digits
    given["MountName"] = "fsx" if deployment == "SCRATCH_1" else "".join(secrets.choice(letters) for _ in range(8))
    return given


def _refuse_while_busy(system: LustreFileSystem) -> None:
    busy = [task["TaskId"] for task in system.tasks.values() if task["Lifecycle"] in tasks.UNFINISHED]
    if busy:
        raise lustre.refused(f"Data repository tasks of the file system are running: {', '.join(busy)}")


def _refuse_soon_again(system: LustreFileSystem) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/increase-storage-capacity.html"""
    if time.time() - system.grown < _BETWEEN_GROWTHS_S:
        raise lustre.refused(
            "The storage capacity of a file system can be increased again six hours after the last increase, or when "
            "its optimization has completed, whichever is later"
        )


def _default_version(configuration: Record) -> str:
    if configuration["DeploymentType"] != "PERSISTENT_2":
        return "2.10"
    return "2.15" if configuration.get("MetadataConfiguration") else "2.12"


class Fsx(Volumes):
    contents: Contents | None
    _tokens: dict[tuple[str, str], Record] = {}
    """Associations by the region and token of the call that created them."""

    def create_file_system(self) -> str:
        request = json.loads(self.body)
        if request.get("FileSystemType") in CONFIGURATIONS:
            return json.dumps({"FileSystem": self.make_over_nfs(request).to_dict() | {"Lifecycle": "CREATING"}})
        if request.get("FileSystemType") != "LUSTRE":
            return str(super().create_file_system())
        if known := self._made_before(request):
            return json.dumps({"FileSystem": known.to_dict()})
        lustre.check_create(request)
        self._check_log_group(request)
        if request.get("KmsKeyId"):
            stores.known_key(str(request["KmsKeyId"]), self.region, "BadRequest")
        ec2 = ec2_backends[self.current_account][self.region]
        groups = request.get("SecurityGroupIds") or []
        efa = bool((request.get("LustreConfiguration") or {}).get("EfaEnabled"))
        subnet = network.check(ec2, request["SubnetIds"][0], groups, efa=efa)
        interface = network.connect(ec2, subnet, groups)
        system = LustreFileSystem(request, self.fsx_backend, interface.id, subnet.vpc_id)
        self.fsx_backend.file_systems[system.file_system_id] = system
        if self.contents:
            self.contents.make(system.file_system_id, lustre=True)
        return json.dumps({"FileSystem": system.to_dict() | {"Lifecycle": "CREATING"}})

    def _made_before(self, request: Record) -> LustreFileSystem | None:
        """The file system that an earlier call with the same token created."""
        token = request.get("ClientRequestToken")
        known = next(
            (each for each in self._systems() if token and each.request.get("ClientRequestToken") == token), None
        )
        if known and known.request != request:
            raise lustre.refused("The token was used for another request", "IncompatibleParameterError")
        return known

    def _check_log_group(self, request: Record) -> None:
        log = (request.get("LustreConfiguration") or {}).get("LogConfiguration") or {}
        name = str(log.get("Destination", "")).partition(":log-group:")[2].split(":")[0]
        if name and name not in logs_backends[self.current_account][self.region].groups:
            raise lustre.refused(f"The log group {name} does not exist")

    def describe_file_systems(self) -> str:
        for system_id in json.loads(self.body or "{}").get("FileSystemIds") or []:
            self._known(system_id)
        return str(super().describe_file_systems())

    def update_file_system(self) -> str:
        request = json.loads(self.body)
        system = self._lustre(request["FileSystemId"])
        lustre.check_update(system.to_dict(), request)
        self._check_log_group(request)
        if request.get("StorageCapacity"):
            _refuse_soon_again(system)
            system.grown = time.time()
        system.storage_capacity = request.get("StorageCapacity") or system.storage_capacity
        system.version = request.get("FileSystemTypeVersion") or system.version
        system.lustre_configuration = {
            **(system.lustre_configuration or {}),
            **(request.get("LustreConfiguration") or {}),
        }
        return json.dumps({"FileSystem": system.to_dict()})

    def delete_file_system(self) -> str:
        system = self._known(json.loads(self.body)["FileSystemId"])
        if isinstance(system, LustreFileSystem):
            _refuse_while_busy(system)
        answer = str(super().delete_file_system())
        if isinstance(system, LustreFileSystem):
            if self.contents:
                self.contents.remove(system.file_system_id)
            network.disconnect(ec2_backends[self.current_account][self.region], system.interface_id)
        if isinstance(system, NfsFileSystem):
            self.remove_over_nfs(system)
        return answer

    def create_data_repository_association(self) -> str:
        request = json.loads(self.body)
        system = self._lustre(request["FileSystemId"])
        if known := self._linked_before(request):
            return json.dumps({"Association": self._shown(known)})
        links.check(request, system.to_dict(), list(system.associations.values()), self.current_account)
        record = links.record(request, self.region, self.current_account, utcnow().timestamp())
        self.fsx_backend.tagger.tag_resource(record["ResourceARN"], request.get("Tags") or [])
        system.associations[record["AssociationId"]] = record
        if request.get("ClientRequestToken"):
            self._tokens[self.region, request["ClientRequestToken"]] = record
        if self.contents:
            self.contents.link(record)
        return json.dumps({"Association": self._shown(record)})

    def _linked_before(self, request: Record) -> Record | None:
        """The association that an earlier call with the same token created. localcloud/validation/idempotency.py has
        already refused a call with the same token and other parameters."""
        token = request.get("ClientRequestToken")
        return self._tokens.get((self.region, str(token))) if token else None

    def describe_data_repository_associations(self) -> str:
        request = json.loads(self.body or "{}")
        ids = request.get("AssociationIds") or []
        for association_id in ids:
            self._association(association_id)
        wanted = [each["Values"] for each in request.get("Filters") or [] if each["Name"] == "file-system-id"]
        found = [
            self._shown(record)
            for system in self._systems()
            for record in system.associations.values()
            if (not ids or record["AssociationId"] in ids)
            and all(record["FileSystemId"] in values for values in wanted)
        ]
        return json.dumps({"Associations": found})

    def update_data_repository_association(self) -> str:
        request = json.loads(self.body)
        _, record = self._association(request["AssociationId"])
        links.check_events(request)
        record.update({name: request[name] for name in ("ImportedFileChunkSize", "S3") if name in request})
        return json.dumps({"Association": self._shown(record)})

    def delete_data_repository_association(self) -> str:
        request = json.loads(self.body)
        system, record = self._association(request["AssociationId"])
        del system.associations[record["AssociationId"]]
        if self.contents:
            self.contents.unlink(record, delete=bool(request.get("DeleteDataInFileSystem")))
        kept = {"DeleteDataInFileSystem": bool(request.get("DeleteDataInFileSystem"))}
        return json.dumps({"AssociationId": record["AssociationId"], "Lifecycle": "DELETING", **kept})

    def create_data_repository_task(self) -> str:
        request = json.loads(self.body)
        system = self._lustre(request["FileSystemId"])
        tasks.check(request, list(system.associations.values()), list(system.tasks.values()))
        record = tasks.record(request, self.region, self.current_account)
        self.fsx_backend.tagger.tag_resource(record["ResourceARN"], request.get("Tags") or [])
        system.tasks[record["TaskId"]] = record
        shown = self._shown(record)
        tasks.start(record, self.contents)
        return json.dumps({"DataRepositoryTask": shown})

    def describe_data_repository_tasks(self) -> str:
        request = json.loads(self.body or "{}")
        known = {task_id: task for system in self._systems() for task_id, task in system.tasks.items()}
        ids = request.get("TaskIds") or list(known)
        wanted = {each["Name"]: each["Values"] for each in request.get("Filters") or []}
        found = [self._task(known, task_id) for task_id in ids]
        keys = {"file-system-id": "FileSystemId", "task-lifecycle": "Lifecycle"}
        kept = [task for task in found if all(task[keys[name]] in wanted[name] for name in keys if name in wanted)]
        return json.dumps({"DataRepositoryTasks": [self._shown(task) for task in kept]})

    def cancel_data_repository_task(self) -> str:
        known = {task_id: task for system in self._systems() for task_id, task in system.tasks.items()}
        task = self._task(known, json.loads(self.body)["TaskId"])
        if task["Lifecycle"] not in tasks.UNFINISHED:
            raise JsonRESTError("DataRepositoryTaskEnded", f"Data repository task '{task['TaskId']}' has ended.")
        task["Lifecycle"] = "CANCELING"
        return json.dumps({"TaskId": task["TaskId"], "Lifecycle": "CANCELING"})

    def _task(self, known: dict[str, Record], task_id: str) -> Record:
        if task_id not in known:
            raise JsonRESTError("DataRepositoryTaskNotFound", f"Data repository task '{task_id}' does not exist.")
        return known[task_id]

    def _shown(self, record: Record) -> Record:
        return {**record, "Tags": self.fsx_backend.list_tags_for_resource(record["ResourceARN"])}

    def _systems(self) -> list[LustreFileSystem]:
        return [each for each in self.fsx_backend.file_systems.values() if isinstance(each, LustreFileSystem)]

    def _known(self, system_id: str) -> FileSystem:
        if system_id not in self.fsx_backend.file_systems:
            raise JsonRESTError("FileSystemNotFound", f"File system '{system_id}' does not exist.")
        return self.fsx_backend.file_systems[system_id]

    def _lustre(self, system_id: str) -> LustreFileSystem:
        system = self._known(system_id)
        if not isinstance(system, LustreFileSystem):
            raise lustre.refused(f"{system_id} is not a Lustre file system", "UnsupportedOperation")
        return system

    def _association(self, association_id: str) -> tuple[LustreFileSystem, Record]:
        for system in self._systems():
            if association_id in system.associations:
                return system, system.associations[association_id]
        raise JsonRESTError(
            "DataRepositoryAssociationNotFound", f"Data repository association '{association_id}' does not exist."
        )
