"""All shards of a data set: the plan, the processes that pack, the shards still missing, and finally the manifest."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from typing import Any

from gpucluster.addresses import in_s3
from gpucluster.data import excluded, lists, manifest, packing, plan, resizing, source
from gpucluster.data.disk import drop_temporary
from gpucluster.data.locations import UNFINISHED, Location, location
from gpucluster.data.manifest import Manifest
from gpucluster.data.packing import Bad, Shard
from gpucluster.data.plan import Plan
from gpucluster.errors import DataError, GpuClusterError, UsageError

Tell = Callable[[str], None]
AGAIN = "run the same command again: it makes the missing ones"
MOST_FILES_SHOWN = 10
TELL_EVERY_S = 5.0


@dataclass(frozen=True)
class Options:
    source: str
    target: str
    shards: Mapping[str, int]
    """By split; "" stands for all other splits."""
    format: str = "tar"
    seed: int = 0
    drop: bool = False
    """Drop the samples that do not fit into equal shards."""
    check: bool = True
    resize: str = ""
    """SHORT:QUALITY, for all splits except resizing.UNCHANGED; empty: files are packed as they are."""
    exclude: tuple[str, ...] = ()
    """Names of files."""
    exclude_from: tuple[str, ...] = ()
    """Files that list such names, read where the plan is made."""
    restart: bool = False
    workers: int = 0
    """0: one for each CPU that this process may use."""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Options:
        found = json.loads(text)
        return cls(**{**found, "exclude": tuple(found["exclude"]), "exclude_from": tuple(found["exclude_from"])})


@dataclass(frozen=True)
class DataSet:
    """The data set at one location, complete or not."""

    location: Location
    plan: Plan
    complete: bool


@dataclass(frozen=True)
class Outcome:
    """The result for one data set."""

    target: str
    samples: int
    shards: int
    remainder: int
    """Dropped, because they do not fit into equal shards."""
    left_out: int
    """Samples that the user left out, of those."""
    bytes: int
    """The size of the shards together."""


def shard(options: Options, tell: Tell) -> list[Outcome]:
    """Raises GpuClusterError. Complete shards are kept, and the next run uses them."""
    sets = prepare(options, tell)
    pack_all([each for each in sets if not each.complete], options, tell)
    outcomes = [finish(each) for each in sets]
    tidy(options.target)
    return outcomes


def pack_all(sets: Sequence[DataSet], options: Options, tell: Tell, part: int = 0, parts: int = 1) -> None:
    """Finds the bad files of all data sets before it raises GpuClusterError."""
    target = location(options.target)
    excluded.note(target, part, ())
    refused, names = list[UsageError](), list[str]()
    for each in sets:
        if bad := pack(each, range(part, len(each.plan.counts), parts), options.workers, tell):
            refused.append(_refusal(each.plan.source, bad))
            names += [one.name for one in bad]
    if not refused:
        return
    excluded.note(target, part, names)
    for earlier in refused[:-1]:
        tell(earlier.render())
    samples = sum(each.plan.samples for each in sets)
    refused[-1].hint = (
        without(options, excluded.merge(target), samples) if parts == 1 else "the last job's log says what to do next"
    )
    raise refused[-1]


def without(options: Options, bad: int, samples: int) -> str:
    """What to do next if this many files are bad, of all that are left to pack."""
    target = location(options.target)
    if bad >= samples:
        in_list = ": the names in a list are relative to the list's folder"
        what = in_list if options.source.endswith(tuple(lists.LISTS)) else ""
        return f"none of its {bad} files can be packed{what}; fix that and run the same command again"
    files = f"the {bad} bad files" if bad > 1 else "the bad file"
    how = f"--restart --exclude {target.url}/{excluded.LIST}"
    return f"fix {files} and run the same command again: finished shards are kept; to skip them, add: {how}"


def tidy(target: str) -> None:
    """Deletes the lists of skipped files when the data sets, each in its own folder, are complete."""
    where = location(target)
    if plan.stored(where) is None:
        where.clear(UNFINISHED)


def prepare(options: Options, tell: Tell) -> list[DataSet]:
    """Lists the source and makes the plans, or finds those of an earlier run."""
    _refuse_inside(options)
    if options.resize:
        resizing.require()
    left_out = [*options.exclude, *(name for file in options.exclude_from for name in excluded.read(file))]
    found = source.read(options.source, left_out)
    if found.ignored:
        count, more = len(found.ignored), " …" if len(found.ignored) > 3 else ""
        no_images = "1 file is not an image and is left" if count == 1 else f"{count} files are not images and are left"
        tell(f"{options.source}: {no_images} out: {', '.join(found.ignored[:3])}{more}")
    _check_splits(options, list(found.splits))
    target = location(options.target)
    sets = []
    for split, samples in found.splits.items():
        name = split or _name_of(options.target)
        shards = options.shards.get(split, options.shards.get("", 0))
        made, lines = plan.make(
            name, found.location.address, samples, found.classes, shards=shards,
            format=options.format, seed=options.seed, drop=options.drop, check=options.check,
            resize="" if split in resizing.UNCHANGED else options.resize,
        )  # fmt: skip
        tell(f"{target.inner(split).url}: {_sentence(made)}")
        sets.append(_settle(target.inner(split), made, lines, restart=options.restart, tell=tell))
    if not all(each.complete for each in sets):
        excluded.begin(target, left_out)
    return sets


def _refuse_inside(options: Options) -> None:
    """Otherwise the next run would read the shards as part of the source."""
    if not in_s3(options.source) and not in_s3(options.target):
        source, target = os.path.realpath(options.source), os.path.realpath(options.target)
        inside = target.startswith(f"{source}/")
    else:
        inside = options.target.rstrip("/").startswith(f"{options.source.rstrip('/')}/")
    if inside:
        raise UsageError(f"{options.target}: is inside the source {options.source}", "name a folder outside it")


def _check_splits(options: Options, splits: Sequence[str]) -> None:
    wrong = [name for name in options.shards if name and name not in splits]
    if wrong:
        there = ", ".join(filter(None, splits)) or "none: it is one data set"
        raise UsageError(f"--shards: {options.source} has no split {wrong[0]!r}", f"its splits: {there}")
    missing = [split for split in splits if split not in options.shards and "" not in options.shards]
    if missing:
        hint = f"add {missing[0]}=NUMBER, or give one number for all splits"
        raise UsageError(f"--shards: no number for {', '.join(missing)}", hint)


def _name_of(target: str) -> str:
    last = target.rstrip("/").rpartition("/")[2]
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in last).strip("-") or "data"


def _sentence(made: Plan) -> str:
    """How the samples are distributed."""
    low, high = min(made.counts), max(made.counts)
    text = f"{_count(made.samples, 'sample')} in {_count(len(made.counts), 'shard')}, {low} in each"
    if made.left_out:
        are = "is" if len(made.left_out) == 1 else "are"
        text += f"; {len(made.left_out)} {are} left out, so that all shards are equal"
    elif high > low:
        text += f", one more in the first {made.remainder}"
    if made.resize:
        short, _, quality = made.resize.partition(":")
        text += f"; resized to a shorter side of {short} pixels, JPEG quality {quality}"
    return f"{text}; {_count(len(made.classes), 'class', 'classes')}" if made.classes else text


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def _settle(where: Location, made: Plan, lines: bytes, *, restart: bool, tell: Tell) -> DataSet:
    there = manifest.load(where)
    if there and (there.plan, there.source) == (made.id, made.source):
        tell(f"{where.url}: is already complete")
        where.clear(UNFINISHED)
        return DataSet(where, made, True)
    if there:
        whence = f", from {there.source}, now {made.source}" if there.source != made.source else ""
        raise UsageError(
            f"{where.url}: has another data set: {there.samples} samples in {len(there.shards)} shards{whence}",
            "name another folder, or delete this one",
        )
    if (old := plan.stored(where)) and (restart or (old.id != made.id and not done(where))):
        _forget(where, old)  # a plan without shards loses nothing
    drop_temporary(where.workshop())
    old = plan.stored(where)
    if old is None:
        plan.store(where, made, lines)
    elif (old.id, old.source) != (made.id, made.source):
        raise UsageError(
            f"{where.url}: has {len(done(where))} shards of another plan: {_difference(old, made)}",
            "--restart deletes them and starts again",
        )
    elif old != made:
        where.write(plan.PLAN, made.text().encode())
    return DataSet(where, made, False)


def _forget(where: Location, old: Plan) -> None:
    names = where.sizes()
    made = [name for each in range(len(old.counts)) for name in (old.shard(each), old.index(each))]
    where.remove(name for name in made if name in names)
    where.clear(UNFINISHED)


def _difference(old: Plan, new: Plan) -> str:
    for name in ("source", "format", "seed", "samples", "name", "resize"):
        if getattr(old, name) != getattr(new, name):
            return f"its {name} is {str(getattr(old, name)) or 'none'}, now {str(getattr(new, name)) or 'none'}"
    if len(old.counts) != len(new.counts):
        return f"it has {len(old.counts)} shards, now {len(new.counts)}"
    return "other files or labels"


def done(where: Location) -> set[str]:
    """Names of the existing shards."""
    return {name.removesuffix(".json") for name in where.sizes(packing.DONE)}


def pack(each: DataSet, numbers: Sequence[int], workers: int, tell: Tell) -> list[Bad]:
    """Packs the missing shards of `numbers`. Returns the bad files. Raises GpuClusterError."""
    have = done(each.location)
    missing = [number for number in numbers if each.plan.shard(number) not in have]
    if len(missing) < len(numbers):
        tell(f"{each.location.url}: {len(numbers) - len(missing)} of {len(numbers)} shards already exist")
    progress = _Progress(each.location.url, len(missing), tell)
    bad = list[Bad]()
    for made in _packed(each, missing, workers or available_cpus()):
        if isinstance(made, Shard):
            progress.add(made)
        else:
            bad += made
    return sorted(bad, key=lambda one: one.name)


def available_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _packed(each: DataSet, numbers: Sequence[int], workers: int) -> Iterator[Shard | list[Bad]]:
    """In the order of completion. The first one that cannot continue ends all."""
    workers = min(workers, len(numbers))
    if workers > 1:
        yield from _packed_by(workers, each, numbers)
        return
    for number in numbers:
        yield packing.pack(each.plan.source, each.location.url, each.plan, number, lambda: False)


def _packed_by(workers: int, each: DataSet, numbers: Sequence[int]) -> Iterator[Shard | list[Bad]]:
    context = multiprocessing.get_context("spawn")
    stop = context.RawValue("b", 0)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_enter, initargs=(stop,)) as pool:
        waiting: list[Future[Shard | list[Bad]]] = []
        try:
            source, target = each.plan.source, each.location.url
            with _interrupts_later():  # a worker would print a traceback until `_enter` is reached
                waiting += [pool.submit(_work, source, target, each.plan, number) for number in numbers]
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            raise DataError(
                "a process that packed shards was killed", "memory may have run out: fewer --workers use less"
            ) from None
        finally:
            stop.value = 1
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Processes that the body starts never get Ctrl-C; this process gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_stop: Any = None


def _enter(stop: Any) -> None:
    """Runs in a worker: the parent handles Ctrl-C, and the worker ends if the parent does."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _work(source: str, target: str, plan: Plan, number: int) -> Shard | list[Bad]:
    return packing.pack(source, target, plan, number, lambda: bool(_stop.value))


class _Progress:
    def __init__(self, url: str, shards: int, tell: Tell) -> None:
        self._url, self._shards, self._tell = url, shards, tell
        self._made, self._bytes = 0, 0
        self._began = self._told = time.monotonic()

    def add(self, shard: Shard) -> None:
        self._made += 1
        self._bytes += shard.bytes
        now = time.monotonic()
        if now - self._told >= TELL_EVERY_S or self._made == self._shards:
            self._told = now
            rate = self._bytes / 2**20 / max(now - self._began, 1e-6)
            self._tell(f"{self._url}: {self._made} of {self._shards} shards, {rate:.0f} MiB/s")


def _refusal(source: str, bad: Sequence[Bad]) -> UsageError:
    shown = "".join(f"\n  {one.name}: {one.reason}" for one in bad[:MOST_FILES_SHOWN])
    more = f"\n  and {len(bad) - MOST_FILES_SHOWN} more" if len(bad) > MOST_FILES_SHOWN else ""
    return UsageError(f"{source}: {len(bad)} file{'s' * (len(bad) > 1)} cannot be packed:{shown}{more}")


def finish(each: DataSet, hint: str = AGAIN) -> Outcome:
    """Writes the manifest. Raises DataError, with the hint, if shards are missing."""
    if not each.complete:
        shards = _collected(each, hint)
        each.location.write(plan.SAMPLES, each.location.read(f"{UNFINISHED}/{plan.SAMPLES}") or b"")
        each.location.write(manifest.NAME, manifest.text(each.plan, shards).encode())
        # Again: a process of a killed run may have lived a little longer.
        drop_temporary(each.location.workshop())
        each.location.clear(UNFINISHED)
    whole = manifest.load(each.location)
    assert whole
    return outcome(each.location, whole)


def outcome(where: Location, whole: Manifest) -> Outcome:
    counts = len(whole.shards), whole.remainder, len(whole.left_out)
    return Outcome(where.url, whole.samples, *counts, whole.bytes)


def _collected(each: DataSet, hint: str) -> list[Shard]:
    names = [each.plan.shard(number) for number in range(len(each.plan.counts))]
    missing = sorted(set(names) - done(each.location))
    if missing:
        raise DataError(
            f"{each.location.url}: {len(missing)} of {len(names)} shards are missing, first {missing[0]}", hint
        )
    found = each.location.contents(f"{packing.DONE}/{name}.json" for name in names)
    shards = []
    for content in found:
        if isinstance(content, GpuClusterError):
            raise content
        shards.append(Shard.parse(json.loads(content)))
    return shards
