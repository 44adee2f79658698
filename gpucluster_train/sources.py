"""A channel's source: the files in a folder, or below an S3 prefix, as shards.

Only S3 needs boto3, which every node's own Python has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from gpucluster_train.assignment import Shard
from gpucluster_train.channels import S3, ChannelError, bucket_and_key, name_flaw

MANIFEST = "manifest.json"
UNFINISHED = ".unfinished/plan.json"
"""Exists beside the shards until all of them and their manifest are complete."""
OF_MANIFEST = {MANIFEST, "samples.jsonl"}
WITH_INDEX, INDEX_SUFFIX = (".rec", ".tar"), ".idx"


@dataclass(frozen=True)
class Found:
    name: str
    """Relative to the source."""
    size_bytes: int
    version: str
    """Changes with the content: S3's ETag, or a file's modification time."""


@dataclass(frozen=True)
class Listing:
    root: str
    shards: tuple[Shard, ...]
    versions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """Notes for the job's log."""
    classes: tuple[str, ...] = ()
    """The names of the labels 0, 1, …; empty if no manifest has them."""


class Source(Protocol):
    root: str

    def files(self) -> list[Found]:
        """All files below the root. Raises ChannelError if there are none or they cannot be read."""

    def text(self, name: str) -> str:
        """The content of one of them."""

    def download(self, name: str, to: Path) -> None:
        """Raises ChannelError, or OSError if `to` cannot be written."""


def source_of(uri: str) -> Source:
    return S3Source(uri) if uri.startswith(S3) else FolderSource(uri)


def listing(uri: str) -> Listing:
    """The shards of a source. Raises ChannelError."""
    source = source_of(uri)
    files = source.files()
    by_name = {found.name: found for found in files}
    notes: list[str] = []
    listed, classes = _manifest(source, by_name, notes)
    if listed is None and any(name == UNFINISHED or name.endswith(f"/{UNFINISHED}") for name in by_name):
        raise ChannelError(f"{uri}: is incomplete: run the same `gpucluster data shard` again, which makes the rest")
    if listed is None and (below := _data_sets_below(source, by_name)):
        every = ", ".join(f"{uri.rstrip('/')}/{name}" for name in below)
        raise ChannelError(f"{uri}: has several data sets: name one of {every}")
    shards = _listed_shards(uri, listed, by_name, notes) if listed else _plain_shards(files)
    if not shards:
        raise ChannelError(f"{uri}: has no file that could be a shard")
    for name in (name for shard in shards for name in (shard.name, *shard.beside)):
        if flaw := name_flaw(f"{source.root}/{name}"):
            raise ChannelError(flaw)
    versions = {name: by_name[name].version for shard in shards for name in (shard.name, *shard.beside)}
    return Listing(source.root, tuple(shards), versions, tuple(notes), classes)


def _is_data(name: str) -> bool:
    return not any(part.startswith((".", "_")) for part in name.split("/"))


def _plain_shards(files: list[Found]) -> list[Shard]:
    """Every file is a shard, except an index beside its records."""
    data = [found for found in files if _is_data(found.name) and found.name.rpartition("/")[2] != MANIFEST]
    return _with_indices([Shard(found.name, found.size_bytes) for found in data])


def _with_indices(shards: list[Shard]) -> list[Shard]:
    names = {shard.name for shard in shards}
    indices = {name: _index_of(name) for name in names if name.endswith(WITH_INDEX) and _index_of(name) in names}
    taken = set(indices.values())
    return [
        replace(shard, beside=(indices[shard.name],)) if shard.name in indices else shard
        for shard in shards
        if shard.name not in taken
    ]


def _index_of(records: str) -> str:
    """MXNet's and DALI's indices have the name of their shard."""
    return f"{records[: -len(WITH_INDEX[0])]}{INDEX_SUFFIX}"


def _manifest(
    source: Source, by_name: Mapping[str, Found], notes: list[str]
) -> tuple[list[Shard] | None, tuple[str, ...]]:
    """The shards that the manifest lists, and its classes. A file of this name from another program is ignored."""
    if MANIFEST not in by_name:
        return None, ()
    if (found := _of_manifest(source, MANIFEST)) is None:
        notes.append(f"{source.root}/{MANIFEST} is not from `gpucluster data shard`: the number of samples is unknown")
    return found or (None, ())


def _of_manifest(source: Source, manifest: str) -> tuple[list[Shard], tuple[str, ...]] | None:
    try:
        found = json.loads(source.text(manifest))
        return [_shard(each) for each in found["shards"]], tuple(str(each) for each in found.get("classes", ()))
    except (ValueError, KeyError, TypeError):
        return None


def _data_sets_below(source: Source, names: Iterable[str]) -> list[str]:
    """Folders of splits, as `gpucluster data shard` makes them: read together, train and val would be mixed."""
    manifests = [name for name in sorted(names) if name.endswith(f"/{MANIFEST}") and _is_data(name)]
    return [name[: -len(f"/{MANIFEST}")] for name in manifests if _of_manifest(source, name) is not None]


def _shard(each: Mapping[str, Any]) -> Shard:
    return Shard(str(each["name"]), int(each["bytes"]), int(each["samples"]), each.get("sha256"))


def _listed_shards(uri: str, listed: list[Shard], by_name: Mapping[str, Found], notes: list[str]) -> list[Shard]:
    missing = [shard.name for shard in listed if shard.name not in by_name]
    if missing:
        raise ChannelError(
            f"{uri}: its {MANIFEST} lists {len(listed)} shards, but {len(missing)} are missing, first {missing[0]}: "
            "copy or export the data set again"
        )
    for shard in listed:
        size = by_name[shard.name].size_bytes
        if size != shard.size_bytes:
            raise ChannelError(
                f"{uri}/{shard.name}: has {size} bytes, but its {MANIFEST} says {shard.size_bytes}: "
                f"it is {'truncated' if size < shard.size_bytes else 'another file'}; copy it again"
            )
    known = {shard.name for shard in listed}
    indices = {_index_of(name) for name in known if name.endswith(WITH_INDEX)}
    others = [name for name in by_name if _is_data(name) and name not in known | indices | OF_MANIFEST]
    if others:
        notes.append(f"{len(others)} files of {uri} are not in its {MANIFEST} and are ignored, first {min(others)}")
    beside = [Shard(name) for name in sorted(indices & by_name.keys())]
    return _with_indices([*listed, *beside])


class FolderSource:
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self.root = str(self._path.parent if self._path.is_file() else self._path)

    def files(self) -> list[Found]:
        if self._path.is_file():
            return [_found(self._path, self._path.parent)]
        if not self._path.is_dir():
            raise ChannelError(f"{self._path}: no such folder on {os.uname().nodename}{_near_folder(self._path)}")
        try:
            return [_found(path, self._path) for path in _walk(self._path) if not _is_lock(path)]
        except PermissionError as error:
            raise ChannelError(f"{error.filename}: the job's user may not read it") from None
        except OSError as error:
            why = f"cannot be read: {error.strerror}: restore it, or remove the link to it"
            raise ChannelError(f"{error.filename}: {why}") from None

    def text(self, name: str) -> str:
        return Path(self.root, name).read_text(encoding="utf-8")

    def download(self, name: str, to: Path) -> None:
        from shutil import copyfile

        try:
            copyfile(Path(self.root, name), to)
        except (FileNotFoundError, PermissionError) as error:
            if error.filename == str(to):
                raise
            raise ChannelError(f"{self.root}/{name}: cannot be read: {error.strerror}") from None


def _is_lock(path: Path) -> bool:
    """A link to no file, such as an editor's lock."""
    return path.name.startswith(".") and path.is_symlink() and not path.exists()


def _refuse(error: OSError) -> None:
    raise error


def _walk(top: Path) -> Iterator[Path]:
    """Follows links, except to a parent folder of the link."""
    above: dict[str, frozenset[str]] = {str(top): frozenset()}
    for folder, below, names in os.walk(top, onerror=_refuse, followlinks=True):
        own = above.pop(folder) | {os.path.realpath(folder)}
        below[:] = sorted(name for name in below if os.path.realpath(Path(folder, name)) not in own)
        above.update({os.path.join(folder, name): own for name in below})
        yield from (Path(folder, name) for name in sorted(names))


def _found(path: Path, top: Path) -> Found:
    status = path.stat()
    return Found(path.relative_to(top).as_posix(), status.st_size, str(status.st_mtime_ns))


def _near_folder(path: Path) -> str:
    there = next((parent for parent in path.parents if parent.is_dir()), Path("/"))
    missing = path.relative_to(there).parts[0]
    try:
        beside = sorted(each.name for each in there.iterdir() if each.is_dir())
    except PermissionError:
        beside = []
    return _near(missing, beside, str(there))


def _near(missing: str, beside: list[str], where: str) -> str:
    near = get_close_matches(missing, beside, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; {where} has {', '.join(beside[:8])}{', …' * (len(beside) > 8)}" if beside else f"; {where} has no folder"


class S3Source:
    def __init__(self, uri: str) -> None:
        self._is_prefix = uri.endswith("/")
        self._uri = uri.rstrip("/")
        self._bucket, self._prefix = bucket_and_key(self._uri)
        self.root = self._uri
        self._s3 = s3_client()

    def files(self) -> list[Found]:
        whole = None if self._is_prefix or not self._prefix else self._whole()
        if not (whole and whole["Size"]):  # an empty object may stand for the prefix
            below = f"{self._prefix}/" if self._prefix else ""
            found = [self._found(each, below) for each in self._objects(below) if not each["Key"].endswith("/")]
            if found:
                return found
        if not whole:
            raise ChannelError(f"{self._uri}: no object has this prefix{self._near_prefix()}")
        folder = self._prefix.rpartition("/")[0]
        self.root = f"s3://{self._bucket}/{folder}".rstrip("/")
        return [self._found(whole, f"{folder}/" if folder else "")]

    def _whole(self) -> dict[str, Any] | None:
        """The source as a single object. A job that may read only this object may not list anything."""
        from botocore.exceptions import ClientError

        with s3_errors(self._uri):
            try:
                head = self._s3.head_object(Bucket=self._bucket, Key=self._prefix)
            except ClientError:  # missing, or not readable: listing shows which
                return None
        return {"Key": self._prefix, "Size": head["ContentLength"], "ETag": head["ETag"]}

    def text(self, name: str) -> str:
        with s3_errors(f"{self.root}/{name}"):
            body: bytes = self._s3.get_object(Bucket=self._bucket, Key=self._key(name))["Body"].read()
            return body.decode()

    def download(self, name: str, to: Path) -> None:
        with s3_errors(f"{self.root}/{name}"):
            self._s3.download_file(self._bucket, self._key(name), str(to))

    def _key(self, name: str) -> str:
        return f"{bucket_and_key(self.root)[1].strip('/')}/{name}".lstrip("/")

    def _objects(self, prefix: str) -> Iterator[dict[str, Any]]:
        with s3_errors(self._uri):
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                yield from page.get("Contents", ())

    def _near_prefix(self) -> str:
        """Suggests a similar prefix. Empty if the role may list only this prefix."""
        parent, _, last = self._prefix.rpartition("/")
        above = f"{parent}/" if parent else ""
        try:
            page = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=above, Delimiter="/")
        except Exception:  # the error would be about another prefix than the requested one
            return ""
        beside = [each["Prefix"][len(above) :].rstrip("/") for each in page.get("CommonPrefixes", ())]
        return _near(last, beside, f"s3://{self._bucket}/{above}") if beside else ""

    def _found(self, each: dict[str, Any], below: str) -> Found:
        name = each["Key"][len(below) :]
        if {"", ".", ".."} & set(name.split("/")):
            why = "a part of it is empty, . or .."
            raise ChannelError(f"{S3}{self._bucket}/{each['Key']}: is not a valid file name: {why}; rename the object")
        return Found(name, each["Size"], each["ETag"].strip('"'))


def s3_client() -> Any:
    try:
        import boto3
    except ImportError:
        raise ChannelError("data in S3 needs boto3 in the node's own Python, which lacks it") from None
    from botocore.config import Config

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return boto3.client("s3", region_name=region, config=Config(retries={"max_attempts": 10, "mode": "standard"}))


@contextmanager
def s3_errors(uri: str) -> Iterator[None]:
    """Translates S3's errors. Raises ChannelError."""
    try:
        yield
    except Exception as error:
        if (said := _in_words(error)) is None:
            raise
        raise ChannelError(f"{uri}: {said}") from None


_DENIED = "S3 denies access: s3_access in cluster.yaml must name it, and the bucket's policy must allow it"
_GONE = "no longer exists"
_NO_BUCKET = "no such bucket: check its name and its region"
_NO_CREDENTIALS = "the job has no credentials for S3: name it in s3_access in cluster.yaml"
_WORDS = {
    "AccessDenied": _DENIED,
    "403": _DENIED,
    "AllAccessDisabled": _DENIED,
    "NoSuchBucket": _NO_BUCKET,
    "NoSuchKey": _GONE,
    "404": _GONE,
    "NoCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
}
"""The explanation for S3's error code, or for the kind of botocore's error."""


def _in_words(error: Exception) -> str | None:
    kind, module = type(error).__name__, type(error).__module__
    code = str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
    if not module.startswith(("botocore", "boto3", "s3transfer")):
        return None
    return _WORDS.get(code) or _WORDS.get(kind) or f"S3 answered {code or kind}: {error}"


def main(uri: str) -> None:
    """Writes one object to stdout. Raises ChannelError."""
    import shutil
    import sys

    bucket, key = bucket_and_key(uri)
    with s3_errors(uri):
        shutil.copyfileobj(s3_client().get_object(Bucket=bucket, Key=key)["Body"], sys.stdout.buffer, 2**20)


if __name__ == "__main__":
    import sys

    try:
        main(sys.argv[1])
    except ChannelError as error:
        sys.exit(f"error: {error}")
