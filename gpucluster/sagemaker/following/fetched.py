"""Copies a training job's objects in S3 to this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpucluster.addresses import S3Uri
from gpucluster.cluster.api_errors import aws_errors
from gpucluster.errors import UsageError
from gpucluster.sagemaker.following.account import Account

_AT_ONCE = 4


class Object(NamedTuple):
    key: str
    below: str
    """The path below the prefix."""
    changed: float
    """Unix seconds."""


def objects(account: Account, place: S3Uri) -> Iterator[Object]:
    """Raises AwsError; UsageError for a key that is no path below a folder."""
    for page in account.pages("s3", "list_objects_v2", Bucket=place.bucket, Prefix=place.folder):
        for each in page.get("Contents", ()):
            below = each["Key"][len(place.folder) :]
            if not below or below.endswith("/"):
                continue
            if below.startswith("/") or {"..", ""} & {*PurePosixPath(below).parts}:
                hint = "copy it with `aws s3 cp`"
                raise UsageError(f"s3://{place.bucket}/{each['Key']} cannot be a file below a folder", hint)
            yield Object(each["Key"], below, each["LastModified"].timestamp())


def copy(account: Account, place: S3Uri, folder: Path) -> int:
    """Copies what is new. A file that is newer here was changed here, and stays. Returns how many objects are there.
    Raises AwsError, UsageError."""
    found = [*objects(account, place)]
    wanted = [each for each in found if not _is_here(folder / each.below, each.changed)]
    account.client("s3")  # threads share it
    with ThreadPoolExecutor(_AT_ONCE) as several:
        for _ in several.map(lambda each: _copied(account, place, each, folder), wanted):
            pass
    return len(found)


def _is_here(file: Path, changed: float) -> bool:
    return file.exists() and file.stat().st_mtime >= int(changed)


def _copied(account: Account, place: S3Uri, each: Object, folder: Path) -> None:
    """boto3 writes a file beside it, which gets the name when it is complete."""
    file = folder / each.below
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with aws_errors():
            account.client("s3").download_file(place.bucket, each.key, str(file))
        os.utime(file, (each.changed, each.changed))
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}", "name another folder with --to") from None
