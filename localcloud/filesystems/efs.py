"""EFS actions that moto lacks: backup policies, and changes after creation. A mount target uses its interface."""

from __future__ import annotations

import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.efs.models import FileSystem
from moto.efs.responses import EFSResponse

from localcloud.filesystems.contents import Contents

Answer = tuple[str, dict[str, Any]]

THROUGHPUT_MODES = ("bursting", "provisioned", "elastic")


class Efs(EFSResponse):
    contents: Contents | None

    def update_file_system(self) -> Answer:
        system = self._system()
        mode = self._get_param("ThroughputMode") or system.throughput_mode
        if mode not in THROUGHPUT_MODES:
            raise JsonRESTError("BadRequest", f"ThroughputMode {mode} is not one of {', '.join(THROUGHPUT_MODES)}")
        system.throughput_mode = mode
        system.provisioned_throughput_in_mibps = self._get_param("ProvisionedThroughputInMibps")
        return _json(system.info_json(), status=202)

    def create_mount_target(self) -> Any:
        answer = super().create_mount_target()
        made = self.efs_backend.mount_targets_by_id[json.loads(answer[0])["MountTargetId"]]
        interfaces = self.efs_backend.ec2_backend.enis
        interfaces[made.network_interface_id].status = "in-use"
        return answer

    def put_backup_policy(self) -> Answer:
        policy = self._get_param("BackupPolicy")
        self._system()._backup = policy["Status"] == "ENABLED"
        return _json({"BackupPolicy": policy})

    def delete_file_system(self) -> Any:
        answer = super().delete_file_system()
        if self.contents:
            self.contents.remove(self._get_param("FileSystemId"))
        return answer

    def delete_file_system_policy(self) -> Answer:
        self._system().file_system_policy = None
        return _json({})

    def _system(self) -> FileSystem:
        system_id = self._get_param("FileSystemId")
        known: dict[str, FileSystem] = self.efs_backend.file_systems_by_id
        if system_id not in known:
            raise JsonRESTError("FileSystemNotFound", f"File system '{system_id}' does not exist.")
        return known[system_id]


def _json(answer: dict[str, Any], status: int = 200) -> Answer:
    return json.dumps(answer), {"status": status, "Content-Type": "application/json"}
