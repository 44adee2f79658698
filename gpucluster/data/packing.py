"""One shard, in one process: read, check, encode, hash and write it, and name it when it is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from gpucluster.addresses import in_s3
from gpucluster.data import images, plan, resizing
from gpucluster.data.disk import temporary, write_error
from gpucluster.data.locations import UNFINISHED, Location, location
from gpucluster.data.plan import Plan
from gpucluster.data.records import Record
from gpucluster.data.resizing import Resize
from gpucluster.data.source import Sample
from gpucluster.errors import DataError, GpuClusterError

DONE = f"{UNFINISHED}/done"
"""One small file for each shard that exists."""
BUFFER_BYTES = 1 << 20


class Stopped(Exception):
    """Another shard failed for a reason that also affects this one."""


@dataclass(frozen=True)
class File:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Shard(File):
    samples: int
    index: File | None = None

    def text(self) -> str:
        fields = asdict(self)
        return json.dumps(fields if self.index else {key: value for key, value in fields.items() if key != "index"})

    @classmethod
    def parse(cls, found: dict[str, Any]) -> Shard:
        """Raises KeyError, TypeError."""
        index = found.get("index")
        return cls(**{**found, "index": File(**index) if index else None})


@dataclass(frozen=True)
class Bad:
    """A file that cannot go into a shard."""

    name: str
    reason: str


Flag = Callable[[], bool]


def pack(source: str, target: str, made: Plan, number: int, stopped: Flag) -> Shard | list[Bad]:
    """The shard `number`, or all its bad files. Raises GpuClusterError, Stopped."""
    where = location(target)
    bad, line = list[Bad](), made.kind.index
    with _Growing(where, made.shard(number)) as shard, _Growing(where, made.index(number)) as index:
        if line:
            index.add(made.kind.index_begin(made.counts[number]))
        for record, encoded in _encoded(location(source), where, made, number, bad):
            if stopped():
                raise Stopped
            if bad:
                continue
            if line:
                index.add(line(record, shard.bytes))
            shard.add(encoded)
        if bad:
            return bad
        shard.add(made.kind.end)
        beside = index.finish() if line else None
        whole = shard.finish()
    found = Shard(whole.name, whole.bytes, whole.sha256, made.counts[number], beside)
    where.write(f"{DONE}/{found.name}.json", found.text().encode())
    return found


def _encoded(
    source: Location, target: Location, made: Plan, number: int, bad: list[Bad]
) -> Iterator[tuple[Record, bytes]]:
    """Appends bad files to `bad` and continues, so that one run finds all bad files."""
    samples = list(plan.samples_of(target, made, number))
    contents = source.contents(sample.name for sample in samples)
    for at, (sample, content) in enumerate(zip(samples, contents, strict=True), start=made.first(number)):
        if isinstance(content, GpuClusterError):
            bad.append(Bad(sample.name, content.message.removeprefix(f"cannot read {sample.name}: ")))
            continue
        if reason := _flaw(sample, content, made):
            bad.append(Bad(sample.name, reason))
            continue
        try:
            record = _record(at, sample, content, made)
            yield record, made.kind.encode(record)
        except ValueError as error:
            bad.append(Bad(sample.name, str(error)))


def _record(number: int, sample: Sample, content: bytes, made: Plan) -> Record:
    """Raises ValueError."""
    name = sample.name
    if made.resize:
        name, content = resizing.resized(name, content, Resize.parse(made.resize))
    return Record(number, name, sample.label, content)


def _flaw(sample: Sample, content: bytes, made: Plan) -> str | None:
    if not content:
        return "it is empty"
    is_image = sample.name.lower().endswith(images.SUFFIXES)
    return images.flaw(content) if made.check and is_image else None


class _Growing:
    """A file that is hashed while it is written. Without `finish` it is deleted."""

    def __init__(self, target: Location, name: str) -> None:
        self._target, self._name = target, name
        self._path: Path | None = None
        self._file: FileIO | None = None
        self._hash = hashlib.sha256()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.bytes = 0

    def __enter__(self) -> _Growing:
        return self

    def add(self, content: bytes) -> None:
        self._waiting.append(content)
        self._waiting_bytes += len(content)
        self.bytes += len(content)
        if self._waiting_bytes >= BUFFER_BYTES:
            self._write()

    def _write(self) -> None:
        """Unbuffered: Python would try to write a buffer again when it closes a file on a full disk."""
        content = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._hash.update(content)
        try:
            if self._file is None:
                self._path = temporary(self._target.workshop(), self._name)
                self._file = FileIO(self._path, "w")
            rest = memoryview(content)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> DataError:
        """Names the full disk, which for S3 is a disk of this machine."""
        name = f"{self._target.url}/{self._name}"
        if self._path is None or not in_s3(self._target.url):
            return write_error(name, error)
        failure = write_error(f"{self._path}, which is to be {name}", error)
        if failure.hint:
            failure.hint += "; TMPDIR names another disk"
        return failure

    def finish(self) -> File:
        self._write()
        assert self._file and self._path
        self._file.close()
        self._target.adopt(self._name, self._path)
        return File(self._name, self.bytes, self._hash.hexdigest())

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
        if self._path:
            self._path.unlink(missing_ok=True)
