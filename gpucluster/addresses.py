"""How the places of data are written: a path, or s3://BUCKET/PREFIX. Imports nothing of ours; it travels with jobs."""

from __future__ import annotations

from dataclasses import dataclass

S3 = "s3://"


def in_s3(address: str | None) -> bool:
    return address is not None and address.startswith(S3)


@dataclass(frozen=True)
class S3Uri:
    bucket: str
    prefix: str
    """Without a slash at its end; empty: the whole bucket."""

    @classmethod
    def of(cls, uri: str) -> S3Uri:
        bucket, _, prefix = uri.removeprefix(S3).partition("/")
        return cls(bucket, prefix.rstrip("/"))

    def __str__(self) -> str:
        return f"{S3}{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def folder(self) -> str:
        """What all its keys begin with."""
        return f"{self.prefix}/" if self.prefix else ""

    def holds(self, inner: S3Uri) -> bool:
        """Whether every object of `inner` is one of its own."""
        return self.bucket == inner.bucket and inner.folder.startswith(self.folder)
