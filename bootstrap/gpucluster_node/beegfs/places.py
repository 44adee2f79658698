"""Where a job's storage in memory is filled from and written back to: a folder, or a prefix in S3."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

CREDENTIALS = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
JOB_CREDENTIALS = "http://127.0.0.1:9911/credentials"
"""The jobs' own role, served on every compute node: the node's role sees none of their data."""
_IN_PARTS = TransferConfig(max_concurrency=4)
"""Of one file; many files are copied at once."""
COPY_ERRORS = (OSError, ClientError, BotoCoreError)


class Refused(Exception):
    """It cannot be done; the text says why and what to do next."""


@dataclass(frozen=True)
class Item:
    name: str
    """Relative, with slashes."""
    size: int
    """Bytes."""


class Place(Protocol):
    """Reading and writing raise any of COPY_ERRORS."""

    def items(self) -> Iterator[Item]: ...
    def fetch(self, item: Item, target: Path) -> None: ...
    def store(self, source: Path, name: str) -> None: ...


def place(address: str, s3: Any = None) -> Place:
    """`s3://bucket/prefix` or an absolute path."""
    return Prefix(address, s3 or _client()) if address.startswith("s3://") else Folder(Path(address))


def walk(root: Path, without: str = "") -> Iterator[Item]:
    """Plain files below it; links and what is neither file nor folder are left out. `without`: a folder at its top."""
    for folder, inner, names in os.walk(root):
        if Path(folder) == root and without in inner:
            inner.remove(without)
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield Item(path.relative_to(root).as_posix(), path.stat().st_size)


@dataclass(frozen=True)
class Folder:
    root: Path

    def items(self) -> Iterator[Item]:
        if not self.root.is_dir():
            raise Refused(f"there is no folder {self.root}")
        yield from walk(self.root)

    def fetch(self, item: Item, target: Path) -> None:
        shutil.copy2(self.root / item.name, target)

    def store(self, source: Path, name: str) -> None:
        """Under another name first: whoever reads finds the old file or the whole new one."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        try:
            shutil.copy2(source, unfinished)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class Prefix:
    uri: str
    s3: Any

    @property
    def _bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def _folder(self) -> str:
        """Ends in a slash; empty for a whole bucket."""
        prefix = self.uri.removeprefix("s3://").partition("/")[2].strip("/")
        return f"{prefix}/" if prefix else ""

    def items(self) -> Iterator[Item]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._folder)
        try:
            for page in pages:
                yield from self._named(page.get("Contents", ()))
        except ClientError as error:
            raise Refused(self._explained(error, "list")) from error

    def _named(self, objects: Iterator[Mapping[str, Any]]) -> Iterator[Item]:
        for each in objects:
            name = each["Key"].removeprefix(self._folder)
            if {"..", "."} & set(name.split("/")) or name.startswith("/"):
                raise Refused(f"s3://{self._bucket}/{each['Key']} cannot be a file's name: rename it")
            if name and not name.endswith("/"):  # else what the console makes for an empty folder
                yield Item(name, each["Size"])

    def fetch(self, item: Item, target: Path) -> None:
        self.s3.download_file(self._bucket, self._folder + item.name, str(target), Config=_IN_PARTS)

    def store(self, source: Path, name: str) -> None:
        self.s3.upload_file(str(source), self._bucket, self._folder + name, Config=_IN_PARTS)

    def _explained(self, error: ClientError, verb: str) -> str:
        code = error.response["Error"]["Code"]
        if code in ("AccessDenied", "403"):
            return f"jobs may not {verb} {self.uri} (AccessDenied): grant it under s3_access in the cluster file"
        if code == "NoSuchBucket":
            return f"there is no bucket {self._bucket}"
        return f"{self.uri} cannot be read: {error}"


def _client() -> Any:
    import boto3
    from botocore.config import Config

    os.environ.setdefault(CREDENTIALS, JOB_CREDENTIALS)
    return boto3.client("s3", config=Config(max_pool_connections=64, retries={"mode": "standard", "max_attempts": 5}))
