"""The requests with which the head node creates a file system with `lifetime: jobs`.

In boto3's form. They are in the file system's SSM parameter, beside values that only a deployment knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucluster.config.storage.fsx import DataRepository, FsxLustre, lustre

Request = dict[str, Any]


@dataclass(frozen=True)
class Resources:
    """The cluster's resources that a file system uses: only a deployment knows their IDs."""

    subnet_id: str
    group_id: str
    log_group_arn: str
    key_arn: str | None
    """The customer's key; None if FSx's own key encrypts."""


def parameter(storage: FsxLustre, cluster: str, resources: Resources) -> Request:
    """`request`: for CreateFileSystem; `links`: for CreateDataRepositoryAssociation, in order. The caller adds a token
    and the file system's id."""
    tags = _tags(storage, cluster)
    return {
        "lifetime": storage.lifetime,
        "efa": storage.efa,
        "version": lustre.VERSION,
        "request": {**_request(storage, resources), "Tags": tags},
        "links": [{**_link(each), "Tags": tags} for each in storage.data_repositories],
    }


def _request(storage: FsxLustre, resources: Resources) -> Request:
    # FSx encrypts scratch file systems with its own key
    key = {"KmsKeyId": resources.key_arn} if resources.key_arn and lustre.persistent(storage) else {}
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": lustre.VERSION,
        "StorageType": "SSD",
        "StorageCapacity": storage.capacity_gib,
        "SubnetIds": [resources.subnet_id],
        "SecurityGroupIds": [resources.group_id],
        **key,
        "LustreConfiguration": _configuration(storage, resources),
    }


def _configuration(storage: FsxLustre, resources: Resources) -> Request:
    found: Request = {
        "DeploymentType": lustre.deployment_type(storage),
        "DataCompressionType": storage.compression.upper(),
        "LogConfiguration": {"Level": lustre.LOG_LEVEL, "Destination": resources.log_group_arn},
    }
    throughput = lustre.throughput_mbps_per_tib(storage)
    if throughput is not None:
        found["PerUnitStorageThroughput"] = throughput
    if storage.efa:
        found["EfaEnabled"] = True
    if storage.deployment == "persistent-2":
        found["MetadataConfiguration"] = _metadata(storage)
    if lustre.persistent(storage):
        found["AutomaticBackupRetentionDays"] = 0
    return found


def _metadata(storage: FsxLustre) -> Request:
    if storage.metadata_iops is None:
        return {"Mode": "AUTOMATIC"}
    return {"Mode": "USER_PROVISIONED", "Iops": storage.metadata_iops}


def _link(repository: DataRepository) -> Request:
    found: Request = {
        "FileSystemPath": lustre.linked_path(repository),
        "DataRepositoryPath": repository.s3,
        "BatchImportMetaDataOnCreate": True,
    }
    policies = {"AutoImportPolicy": repository.import_, "AutoExportPolicy": repository.export}
    events = {name: {"Events": [each.upper() for each in of]} for name, of in policies.items() if of}
    return {**found, "S3": events} if events else found


def _tags(storage: FsxLustre, cluster: str) -> list[Mapping[str, str]]:
    """The tags of all resources of the cluster. The head node's role depends on both."""
    values = {"Name": storage.tagged_name(cluster), "gpucluster:cluster": cluster}
    return [{"Key": key, "Value": value} for key, value in values.items()]
