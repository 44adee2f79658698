"""The objects of a data repository association below a bucket's prefix, read from moto in the same process."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.s3.models import FakeKey, s3_backends

from localcloud.filesystems.posix import Attributes
from localcloud.runtime import Locks

LONGEST_KEY = 1024
_LONGEST_NAME = 255


class NotExported(Exception):
    """S3 cannot store it; the message says why."""


@dataclass(frozen=True)
class Object:
    ident: str  # changes each time that the object is written
    size: int
    metadata: Mapping[str, str]
    kind: int
    modified_ns: int

    @property
    def attributes(self) -> Attributes:
        return Attributes.of(self.metadata, self.kind, self.modified_ns)


class Store:
    """S3's objects, whose records the cloud's lock guards."""

    def __init__(self, account_id: str, locks: Locks) -> None:
        self.account_id = account_id
        self.locks = locks

    @property
    def backend(self) -> Any:
        return s3_backends[self.account_id]["aws"]

    def repository(self, uri: str) -> Repository:
        return Repository(self, uri)

    def read(self, uri: str) -> bytes:
        """One object. Raises FileNotFoundError."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return Repository(self, bucket).read(key)


class Repository:
    """Paths are relative to the prefix; a directory's path ends with a slash."""

    def __init__(self, store: Store, uri: str) -> None:
        self._store = store
        self.bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def uri(self, path: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}{path}"

    def list(self) -> dict[str, Object]:
        """Objects whose keys can be paths. None if the bucket has been deleted."""
        with self._store.locks.whole:
            bucket = self._store.backend.buckets.get(self.bucket)
            keys = bucket.keys.items() if bucket else ()
            return {
                key[len(self.prefix) :]: _object(found)
                for key, found in keys
                if isinstance(found, FakeKey) and key.startswith(self.prefix) and is_path(key[len(self.prefix) :])
            }

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        with self._store.locks.whole:
            bucket = self._store.backend.buckets.get(self.bucket)
            found = bucket.keys.get(self.prefix + path) if bucket else None
            if not isinstance(found, FakeKey):
                raise FileNotFoundError(self.uri(path))
            return bytes(found.value)

    def write(self, path: str, content: bytes, metadata: Mapping[str, str]) -> Object:
        """Raises NotExported."""
        key = self.prefix + path
        if len(key.encode(errors="surrogateescape")) > LONGEST_KEY:
            raise NotExported(f"its key would have more than {LONGEST_KEY} bytes")
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise NotExported("its name is not UTF-8") from error
        with self._store.locks.whole:
            if self.bucket not in self._store.backend.buckets:
                raise NotExported(f"the bucket {self.bucket} does not exist")
            made = self._store.backend.put_object(self.bucket, key, content)
            made.set_metadata(dict(metadata))
            return _object(made)

    def delete(self, path: str) -> None:
        with self._store.locks.whole:
            if self.bucket in self._store.backend.buckets:
                self._store.backend.delete_object(self.bucket, self.prefix + path)


def is_path(text: str) -> bool:
    """FSx imports no object whose key cannot be a path."""
    parts = text.removesuffix("/").split("/")
    return "\0" not in text and all(
        part not in ("", ".", "..") and len(part.encode()) <= _LONGEST_NAME for part in parts
    )


def _object(key: Any) -> Object:
    modified_ns = int(key.last_modified.timestamp() * 1e9)
    kind = stat.S_IFDIR if key.name.endswith("/") else stat.S_IFREG
    return Object(f"{key.etag} {modified_ns}", key.size, key.metadata, kind, modified_ns)
