"""S3 in the name of a job's role: downloads before the start, copies during the run, archives at the end."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from localcloud.training import data
from localcloud.training.data import Channel, Object, Unreadable

Client = Callable[[str], Any]
"""A boto3 client of a service with the role's credentials."""


class Store:
    def __init__(self, client: Client) -> None:
        self._client = client("s3")

    def objects(self, channel: Channel) -> list[Object]:
        """Raises Unreadable."""
        if channel.source.get("S3DataType") == "ManifestFile":
            bucket, key = data.split(channel.uri)
            text = b"".join(self.read(Object(bucket, key, "")))
            return data.manifest(channel.uri, text.decode(errors="replace"))
        return data.below(channel.uri, self._keys(channel.uri))

    def _keys(self, uri: str) -> Iterator[str]:
        bucket, prefix = data.split(uri)
        try:
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for found in page.get("Contents") or ():
                    yield str(found["Key"])
        except ClientError as error:
            raise Unreadable(f"Data download failed:Failed to list objects of {uri} ({_words(error)})") from None

    def read(self, found: Object) -> Iterator[bytes]:
        """Raises Unreadable."""
        try:
            body = self._client.get_object(Bucket=found.bucket, Key=found.key)["Body"]
        except ClientError as error:
            raise Unreadable(f"Data download failed:Unable to download object {found.uri} ({_words(error)})") from None
        yield from body.iter_chunks(1024 * 1024)

    def content(self, found: Object, channel: Channel) -> Iterator[bytes]:
        """As a pipe has it: unpacked and in records, if the channel wants that."""
        if not channel.gzip and not channel.record_io:
            yield from self.read(found)
            return
        whole = b"".join(self.read(found))
        whole = gzip.decompress(whole) if channel.gzip else whole
        yield data.record(whole) if channel.record_io else whole

    def download(self, objects: Sequence[Object], folder: Path) -> None:
        """Raises Unreadable."""
        for found in objects:
            path = folder / found.path
            if not path.resolve().is_relative_to(folder.resolve()):
                raise Unreadable(f"Data download failed:Unable to write {found.uri} outside of the channel's folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(self.read(found))

    def restore(self, uri: str, folder: Path) -> None:
        """Every object whose key begins with that of the address, which is a folder only if it ends with a slash
        (syne-tune#363). Raises Unreadable."""
        self.download(data.below(uri, self._keys(uri)), folder)

    def put(self, path: Path, uri: str) -> None:
        """Raises ClientError, and OSError for a file that has gone."""
        bucket, key = data.split(uri)
        self._client.upload_file(str(path), bucket, key)

    def archive(self, folders: Sequence[Path], uri: str) -> None:
        """The files of all hosts in one; of equal names the first host's remains. Raises ClientError."""
        with tempfile.NamedTemporaryFile(suffix=".tar.gz") as packed:
            with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
                for name, path in files(folders).items():
                    archive.add(path, name, recursive=False)
            packed.flush()
            self.put(Path(packed.name), uri)

    def spread(self, folders: Sequence[Path], uri: str) -> None:
        """The same files as objects, for CompressionType NONE. Raises ClientError."""
        for name, path in files(folders).items():
            self.put(path, f"{uri}/{name}")


def files(folders: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() or path.is_symlink():
                found.setdefault(str(path.relative_to(folder)), path)
    return found


def _words(error: ClientError) -> str:
    """amazon-sagemaker-examples#4384: S3's own words name the caller today."""
    code = error.response["Error"].get("Code")
    return (
        "AccessDenied: Access Denied" if code == "AccessDenied" else f"{code}: {error.response['Error'].get('Message')}"
    )


class Copies:
    """Copies the files of some folders to S3 whenever they have changed. It never deletes."""

    def __init__(self, store: Store, folders: Sequence[Path], uri: str) -> None:
        self._store, self._folders, self._uri = store, folders, uri.rstrip("/")
        self._copied: dict[Path, tuple[int, int]] = {path: _state(path) for path in self._paths()}
        """What was restored need not go back."""

    def _paths(self) -> Iterator[Path]:
        for folder in self._folders:
            yield from (path for path in sorted(folder.rglob("*")) if path.is_file())

    def copy(self) -> None:
        for folder in self._folders:
            for path in sorted(folder.rglob("*")):
                try:
                    state = _state(path)
                    if not path.is_file() or self._copied.get(path) == state:
                        continue
                    self._store.put(path, f"{self._uri}/{path.relative_to(folder)}")
                    self._copied[path] = state
                except (OSError, ClientError):  # it has gone since, or S3 refuses it: SageMaker says nothing either
                    continue


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
