"""Data repository associations: a directory of a Lustre file system, linked to a bucket or a prefix of it."""

from __future__ import annotations

import secrets
from typing import Any

from moto.s3.models import s3_backends

from localcloud.filesystems.lustre import refused

Record = dict[str, Any]

MOST = 8
NO_ACCESS = (
    "Amazon FSx is unable to validate access to the S3 bucket. Ensure the IAM role or user you are using has s3:Get*, "
    "s3:List* and s3:PutObject permissions to the S3 bucket prefix."
)
"""FSx for Lustre user guide, "Unable to validate access to an S3 bucket when creating a DRA". FSx answers so if the
bucket does not exist, too: aws-samples/amazon-eks-machine-learning-with-terraform-and-kubeflow issue 91."""
EVENTS = ("NEW", "CHANGED", "DELETED")
_SHOWN = ("FileSystemId", "FileSystemPath", "DataRepositoryPath", "S3", "BatchImportMetaDataOnCreate")


def check(request: Record, system: Record, others: list[Record], account_id: str) -> None:
    """Raises CreateDataRepositoryAssociation's error; `system` as DescribeFileSystems shows it."""
    lustre = system["LustreConfiguration"]
    if lustre["DeploymentType"] == "SCRATCH_1" or system["FileSystemTypeVersion"] == "2.10":
        raise refused(
            "Data repository associations need Lustre 2.12 or 2.15, and not SCRATCH_1", "UnsupportedOperation"
        )
    if lustre.get("AutomaticBackupRetentionDays"):
        raise refused("A file system with automatic backups cannot be linked to a data repository")
    if len(others) >= MOST:
        raise refused(f"A file system has at most {MOST} data repository associations", "ServiceLimitExceeded")
    _check_path(request.get("FileSystemPath") or "/", [other["FileSystemPath"] for other in others])
    _check_repository(request["DataRepositoryPath"], [other["DataRepositoryPath"] for other in others], account_id)
    check_events(request)
    _check_region(request, system, account_id)


def check_events(request: Record) -> None:
    for policy in (request.get("S3") or {}).values():
        for event in policy.get("Events") or []:
            if event not in EVENTS:
                raise refused(f"Event {event} is not one of {', '.join(EVENTS)}")


def _check_path(path: str, others: list[str]) -> None:
    if not path.startswith("/"):
        raise refused(f"FileSystemPath must begin with a slash, got {path}")
    ours = path.rstrip("/") + "/"
    for other in (each.rstrip("/") + "/" for each in others):
        if ours.startswith(other) or other.startswith(ours):
            raise refused(f"FileSystemPath {path} overlaps with {other}, which is linked already")


def _check_repository(uri: str, others: list[str], account_id: str) -> None:
    bucket = uri.removeprefix("s3://").partition("/")[0]
    if not uri.startswith("s3://") or not bucket:
        raise refused(f"DataRepositoryPath must be s3://bucket or s3://bucket/prefix, got {uri}")
    for other in others:
        if (uri.rstrip("/") + "/").startswith(other.rstrip("/") + "/") or (other.rstrip("/") + "/").startswith(
            uri.rstrip("/") + "/"
        ):
            raise refused(f"DataRepositoryPath {uri} overlaps with {other}, which is linked already")
    if bucket not in s3_backends[account_id]["aws"].buckets:
        raise refused(NO_ACCESS)


def _check_region(request: Record, system: Record, account_id: str) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html"""
    if not ((request.get("S3") or {}).get("AutoExportPolicy") or {}).get("Events"):
        return
    name = request["DataRepositoryPath"].removeprefix("s3://").partition("/")[0]
    bucket, here = s3_backends[account_id]["aws"].buckets[name], system["ResourceARN"].split(":")[3]
    if (bucket.region_name or "us-east-1") != here:
        raise refused(f"The bucket {name} is in {bucket.region_name}: automatic export needs one in {here}")


def record(request: Record, region: str, account_id: str, now: float) -> Record:
    association_id = f"dra-{secrets.token_hex(9)[:17]}"
    return {
        "FileSystemPath": "/",
        "BatchImportMetaDataOnCreate": False,
        "ImportedFileChunkSize": request.get("ImportedFileChunkSize", 1024),
        **{name: request[name] for name in _SHOWN if name in request},
        "AssociationId": association_id,
        "ResourceARN": f"arn:aws:fsx:{region}:{account_id}:association/{request['FileSystemId']}/{association_id}",
        "Lifecycle": "AVAILABLE",
        "CreationTime": now,
    }
