"""Compares shards with their manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from gpucluster.data import manifest, plan
from gpucluster.data.locations import Folder, Location, location
from gpucluster.data.manifest import Manifest
from gpucluster.data.packing import File, Shard
from gpucluster.data.records import FORMATS
from gpucluster.data.run import available_cpus, done
from gpucluster.data.source import SPLITS
from gpucluster.errors import DataError, GpuClusterError, UsageError

PIECE = 1 << 20
Job = tuple[str, str, Shard]
"""Where, the format, and which."""


@dataclass(frozen=True)
class Report:
    target: str
    samples: int
    shards: int
    bytes: int
    faults: tuple[str, ...]


def verify(url: str, *, quick: bool = False, workers: int = 0) -> list[Report]:
    """Verifies the data set there, or that of each split. `quick` compares only sizes. Raises GpuClusterError."""
    return [_verified(where, found, quick, workers) for where, found in _data_sets(location(url))]


def _data_sets(where: Location) -> Iterator[tuple[Location, Manifest]]:
    found = False
    for each in (where, *(where.inner(split) for split in SPLITS)):
        if whole := manifest.load(each):
            found = True
            yield each, whole
        elif unfinished := plan.stored(each):
            raise DataError(
                f"{each.url}: is incomplete: {len(done(each))} of {len(unfinished.counts)} shards exist",
                "run the same `gpucluster data shard` again: it makes the rest",
            )
    if not found:
        if isinstance(where, Folder):
            where.require("name the folder that `gpucluster data shard` wrote")
        hint = "`gpucluster data shard` writes it beside the shards"
        raise UsageError(f"{where.url}: has no {manifest.NAME}", hint)


def _verified(where: Location, whole: Manifest, quick: bool, workers: int) -> Report:
    sizes = where.sizes()
    faults = list(_missing(whole, sizes))
    if not quick:
        right = [shard for shard in whole.shards if all(sizes.get(file.name) == file.bytes for file in _files(shard))]
        jobs = [(where.url, whole.format, shard) for shard in right]
        faults += [fault for each in _each(jobs, workers or available_cpus()) for fault in each]
    counted = sum(shard.samples for shard in whole.shards)
    if counted != whole.samples:
        faults.append(f"{manifest.NAME}: says {whole.samples} samples, but its shards have {counted}")
    return Report(where.url, whole.samples, len(whole.shards), whole.bytes, tuple(faults))


def _files(shard: Shard) -> list[File]:
    return [shard, shard.index] if shard.index else [shard]


def _each(jobs: Sequence[Job], workers: int) -> Iterator[list[str]]:
    workers = min(workers, len(jobs))
    if workers <= 1:
        yield from map(_faults, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_faults, jobs, chunksize=4)


def _missing(whole: Manifest, sizes: Mapping[str, int]) -> Iterator[str]:
    """Also finds extra files, which a reader of all files would read too."""
    expected = {file.name: file for shard in whole.shards for file in _files(shard)}
    for name, file in expected.items():
        if name not in sizes:
            yield f"{name}: is missing"
        elif sizes[name] != file.bytes:
            yield f"{name}: {sizes[name]} bytes, expected {file.bytes}"
    suffix = FORMATS[whole.format].suffix
    yield from (
        f"{name}: is not in {manifest.NAME}" for name in sorted(sizes.keys() - expected) if name.endswith(suffix)
    )


def _faults(job: Job) -> list[str]:
    url, format, shard = job
    where = location(url)
    found = [fault for file in _files(shard) if (fault := _changed(where, file))]
    if found:
        return found
    try:
        with where.opened(shard.name) as file:
            count = FORMATS[format].count(file)
    except ValueError as error:
        return [f"{shard.name}: {error}"]
    return [] if count == shard.samples else [f"{shard.name}: {count} samples, expected {shard.samples}"]


def _changed(where: Location, file: File) -> str | None:
    digest = hashlib.sha256()
    try:
        with where.opened(file.name) as content:
            while piece := content.read(PIECE):
                digest.update(piece)
    except (GpuClusterError, OSError) as error:
        return f"{file.name}: {error}"
    return None if digest.hexdigest() == file.sha256 else f"{file.name}: its checksum differs from the manifest's"
