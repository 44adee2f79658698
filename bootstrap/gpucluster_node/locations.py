"""A folder or a prefix in S3, which node programs read data from and write it to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from gpucluster_node.aws import AWS_ERRORS, client, error_code

S3 = "s3://"
_IN_PARTS = TransferConfig(max_concurrency=4)
"""For one file; many files are copied at once."""
COPY_ERRORS = (OSError, *AWS_ERRORS, Boto3Error)
"""boto3 has its own errors for a refused upload and for a download that it gives up."""


class Refused(Exception):
    """The message says why it cannot be done and what to do next."""


@dataclass(frozen=True)
class Item:
    name: str
    """Relative, with slashes."""
    size: int
    """Bytes."""


class Location(Protocol):
    """Reading and writing raise any of COPY_ERRORS."""

    def items(self) -> Iterator[Item]: ...
    def fetch(self, item: Item, target: Path) -> None: ...
    def store(self, source: Path, name: str) -> None: ...


def location(address: str) -> Location:
    """`s3://bucket/prefix` or an absolute path."""
    return Prefix(address, client("s3")) if address.startswith(S3) else Folder(Path(address))


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Splits `s3://bucket/key`; the key is empty for the whole bucket."""
    bucket, _, key = uri.removeprefix(S3).partition("/")
    return bucket, key


def walk(root: Path, without: str = "", *, links: bool = False) -> Iterator[Item]:
    """Regular files below it, and with `links` the targets of links. `without`: a folder at its top to skip."""
    for folder, inner, names in os.walk(root):
        if Path(folder) == root and without in inner:
            inner.remove(without)
        for path in (Path(folder, name) for name in names):
            if path.is_file() and (links or not path.is_symlink()):
                yield Item(path.relative_to(root).as_posix(), path.stat().st_size)


@dataclass(frozen=True)
class Folder:
    root: Path

    def items(self) -> Iterator[Item]:
        if not self.root.is_dir():
            raise Refused(f"there is no folder {self.root}")
        yield from walk(self.root, links=True)

    def fetch(self, item: Item, target: Path) -> None:
        shutil.copy2(self.root / item.name, target)

    def store(self, source: Path, name: str) -> None:
        """Writes under another name first: readers see the old file or the complete new one."""
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
        return bucket_and_key(self.uri)[0]

    @property
    def _folder(self) -> str:
        """Ends in a slash; empty for a whole bucket."""
        prefix = bucket_and_key(self.uri)[1].rstrip("/")
        return f"{prefix}/" if prefix else ""

    def items(self) -> Iterator[Item]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._folder)
        try:
            for page in pages:
                yield from self._named(page.get("Contents", ()))
        except ClientError as error:
            raise Refused(self._explained(error, "list")) from error

    def _named(self, objects: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
        for each in objects:
            name = each["Key"].removeprefix(self._folder)
            if not name or name.endswith("/"):  # the console creates these for empty folders
                continue
            if {"", ".", ".."} & set(name.split("/")):
                why = "an empty part, . or .. in it is no file's name"
                raise Refused(f"{S3}{self._bucket}/{each['Key']} cannot be copied: {why}; rename the object")
            yield Item(name, each["Size"])

    def fetch(self, item: Item, target: Path) -> None:
        self.s3.download_file(self._bucket, self._folder + item.name, str(target), Config=_IN_PARTS)

    def store(self, source: Path, name: str) -> None:
        self.s3.upload_file(str(source), self._bucket, self._folder + name, Config=_IN_PARTS)

    def _explained(self, error: ClientError, verb: str) -> str:
        code = error_code(error)
        if code in ("AccessDenied", "403"):
            what = "jobs need it under s3_access in the cluster file, and the bucket's own policy must allow it"
            return f"{self.uri}: access denied to {verb} it: {what}"
        if code == "NoSuchBucket":
            return f"there is no bucket {self._bucket}"
        return f"{self.uri} cannot be read: {error}"
