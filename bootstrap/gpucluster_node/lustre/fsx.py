"""FSx's API for a Lustre file system and its links to S3.

A token makes a call that is repeated without having seen its answer the same call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster_node import aws_api
from gpucluster_node.aws import AWS_ERRORS, error_code

Request = Mapping[str, Any]
TRIES = 3
"""The caller records the error, which waiting jobs show, and asks again a minute later."""
BROKEN = ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")


@dataclass(frozen=True)
class FileSystem:
    file_system_id: str
    lifecycle: str
    """CREATING, AVAILABLE, DELETING, UPDATING, or one of BROKEN."""
    dns_name: str = ""
    mount_name: str = ""
    version: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Link:
    path: str
    lifecycle: str
    failure: str = ""


def create(request: Request, token: str) -> str:
    """Returns its id. Raises aws_api.ERRORS.

    Not through boto3: Ubuntu 24.04's, 1.34.46, knows neither MetadataConfiguration nor EfaEnabled of
    LustreConfiguration, and refuses a request that has a parameter that it does not know.
    """
    made: Any = aws_api.ask("fsx", "CreateFileSystem", tries=TRIES, ClientRequestToken=token, **request)
    return str(made["FileSystem"]["FileSystemId"])


def find(client: Any, file_system_id: str) -> FileSystem | None:
    """None once it is deleted. Raises AWS_ERRORS."""
    try:
        found = client.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"][0]
    except AWS_ERRORS as error:
        if error_code(error) == "FileSystemNotFound":
            return None
        raise
    return FileSystem(
        file_system_id,
        found["Lifecycle"],
        found.get("DNSName", ""),
        (found.get("LustreConfiguration") or {}).get("MountName", ""),
        found.get("FileSystemTypeVersion", ""),
        (found.get("FailureDetails") or {}).get("Message", ""),
    )


def tagged(client: Any, tags: Sequence[Mapping[str, str]]) -> str | None:
    """The id of a file system with all these tags. Raises AWS_ERRORS."""
    for page in client.get_paginator("describe_file_systems").paginate():
        for each in page["FileSystems"]:
            if each["Lifecycle"] != "DELETING" and all(tag in each.get("Tags", ()) for tag in tags):
                return str(each["FileSystemId"])
    return None


def link(client: Any, file_system_id: str, request: Request, token: str) -> None:
    """Raises AWS_ERRORS."""
    client.create_data_repository_association(FileSystemId=file_system_id, ClientRequestToken=token, **request)


def links(client: Any, file_system_id: str) -> list[Link]:
    """A file system has at most 8, FSx's limit: they fit on a page. Raises AWS_ERRORS."""
    wanted = [{"Name": "file-system-id", "Values": [file_system_id]}]
    found = client.describe_data_repository_associations(Filters=wanted)["Associations"]
    return [
        Link(each["FileSystemPath"], each["Lifecycle"], (each.get("FailureDetails") or {}).get("Message", ""))
        for each in found
    ]


def delete(client: Any, file_system_id: str) -> None:
    """Deletes its links too; objects in S3 stay. Raises AWS_ERRORS."""
    try:
        client.delete_file_system(FileSystemId=file_system_id)
    except AWS_ERRORS as error:
        if error_code(error) != "FileSystemNotFound":
            raise
