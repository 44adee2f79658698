"""Addresses of data: a path, or s3://BUCKET/PREFIX. Imports no other module of the project: it is shipped with jobs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

S3 = "s3://"


def in_s3(address: str | None) -> bool:
    return address is not None and address.startswith(S3)


def within(path: str, folder: str) -> bool:
    """Whether the path is the folder, or lies below it. A path with `..` lies in no folder: after a link, `..` leads to
    another place, and only the machine that has the link knows it."""
    parts = PurePosixPath(path)
    return ".." not in parts.parts and parts.is_relative_to(folder)


class S3Uri(NamedTuple):
    bucket: str
    prefix: str
    """Without a trailing slash. Empty: the whole bucket."""

    @classmethod
    def of(cls, uri: str) -> S3Uri:
        bucket, _, prefix = uri.removeprefix(S3).partition("/")
        return cls(bucket, prefix.rstrip("/"))

    def __str__(self) -> str:
        return f"{S3}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def folder(self) -> str:
        """The prefix that all its keys share."""
        return f"{self.prefix}/" if self.prefix else ""

    def holds(self, inner: S3Uri) -> bool:
        """Whether every object below `inner` is also below this prefix."""
        return self.bucket == inner.bucket and inner.folder.startswith(self.folder)
