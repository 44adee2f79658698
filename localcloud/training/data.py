"""Which objects of its channels a host reads, in which order, and under which names. Pure."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_RECORDIO_MAGIC = 0xCED7230A  # dmlc-core's recordio.h, kMagic
_RECORDIO_ALIGNMENT = 4


class Unreadable(Exception):
    """The words after "ClientError: " of the job's failure."""


@dataclass(frozen=True)
class Object:
    bucket: str
    key: str
    path: str  # below the channel's folder

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Channel:
    name: str
    mode: str  # File | FastFile | Pipe
    source: Mapping[str, Any]  # the request's S3DataSource
    content_type: str = ""
    gzip: bool = False
    record_io: bool = False
    seed: int | None = None
    system: Mapping[str, str] = field(default_factory=dict)  # or the request's FileSystemDataSource

    @property
    def mounted_read_only(self) -> bool:
        return bool(self.system) and self.system.get("FileSystemAccessMode") != "rw"

    @property
    def sharded(self) -> bool:
        return self.source.get("S3DataDistributionType") == "ShardedByS3Key"

    @property
    def uri(self) -> str:
        return str(self.source["S3Uri"])


def channels(request: Mapping[str, Any]) -> list[Channel]:
    usual = request["AlgorithmSpecification"]["TrainingInputMode"]
    return [
        Channel(
            name=given["ChannelName"],
            mode=given.get("InputMode") or usual,
            source=given["DataSource"].get("S3DataSource") or {},
            content_type=given.get("ContentType") or "",
            gzip=given.get("CompressionType") == "Gzip",
            record_io=given.get("RecordWrapperType") == "RecordIO",
            seed=(given.get("ShuffleConfig") or {}).get("Seed"),
            system=given["DataSource"].get("FileSystemDataSource") or {},
        )
        for given in request.get("InputDataConfig") or ()
    ]


def split(uri: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, key = uri.removeprefix("s3://").removeprefix("https://").partition("/")
    return bucket, key


def below(uri: str, keys: Iterable[str]) -> list[Object]:
    """The objects of a prefix, which need not end at a slash. Keys that end with one are folders of the console."""
    bucket, prefix = split(uri)
    found = []
    for key in sorted(keys):
        if key.endswith("/") or not key.startswith(prefix):
            continue
        if "//" in key:
            raise Unreadable(f"Data download failed:Key {key} has an illegal char sub-sequence '//' in it")
        inside = key[prefix.rfind("/") + 1 :] if not prefix.endswith("/") else key[len(prefix) :]
        within = key[len(prefix) :].lstrip("/")
        found.append(Object(bucket, key, within or inside))
    return found


def manifest(uri: str, text: str) -> list[Object]:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html, ManifestFile."""
    try:
        first, *names = json.loads(text)
        bucket, prefix = split(str(first["prefix"]))
    except (ValueError, TypeError, KeyError):
        raise Unreadable(f"Data download failed:Invalid manifest file {uri}") from None
    return [Object(bucket, prefix + str(name), str(name).lstrip("/")) for name in names]


def share(objects: Sequence[Object], channel: Channel, host: int, hosts: int, epoch: int = 0) -> list[Object]:
    """What a host reads: in Pipe mode shuffled anew at every epoch; in the other modes a seed only decides which host
    has which object."""
    ordered = list(objects)
    if channel.seed is not None and (channel.mode == "Pipe" or channel.sharded):
        random.Random(f"{channel.seed}/{epoch if channel.mode == 'Pipe' else 0}").shuffle(ordered)
    return ordered[host::hosts] if channel.sharded else ordered


def record(content: bytes) -> bytes:
    """One RecordIO record: magic number, length, content, padding."""
    padding = -len(content) % _RECORDIO_ALIGNMENT
    return struct.pack("<II", _RECORDIO_MAGIC, len(content)) + content + bytes(padding)
