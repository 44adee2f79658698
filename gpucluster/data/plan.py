"""Which sample goes into which shard. Computed once, only from names, seed and number of shards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

from gpucluster.data.locations import UNFINISHED, Location
from gpucluster.data.records import FORMATS, INDEX_SUFFIX, Format
from gpucluster.data.source import Sample
from gpucluster.errors import DataError, UsageError

VERSION = 1
MOST_SHARDS = 999_999
SAMPLES = "samples.jsonl"
"""One line for each sample: file and label. Line 0 is sample 000000000 of the first shard."""
PLAN = f"{UNFINISHED}/plan.json"


@dataclass(frozen=True)
class Plan:
    name: str
    """Shards are called NAME-000000.tar and so on."""
    source: str
    """Its address: files with the same names elsewhere may have other content."""
    format: str
    seed: int
    samples: int
    """That are in shards."""
    remainder: int
    """The number that equal shards do not hold: one each in the first shards, or left out."""
    left_out: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    """The number of samples, by shard."""
    digest: str
    """The digest of the order of samples."""
    check: bool = True
    """Whether each image is checked."""
    resize: str = ""
    """SHORT:QUALITY; empty if files are packed as they are."""
    offsets: tuple[int, ...] = field(default=(), repr=False)
    """For each shard, where its lines begin in SAMPLES; and where the last one's lines end."""

    @property
    def kind(self) -> Format:
        return FORMATS[self.format]

    @property
    def id(self) -> str:
        """Equal if the same files give the same shards, wherever the files are."""
        own = {name: value for name, value in asdict(self).items() if name not in ("source", "offsets", "check")}
        if not self.resize:
            del own["resize"]  # as before there was such a choice
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()

    def shard(self, number: int) -> str:
        return f"{self.name}-{number:06d}{self.kind.suffix}"

    def index(self, number: int) -> str:
        """The name of its index; the shard's own name if the format has no index."""
        return f"{self.name}-{number:06d}{INDEX_SUFFIX if self.kind.index else self.kind.suffix}"

    def first(self, number: int) -> int:
        """The number in the data set of the shard's first sample."""
        return sum(self.counts[:number])

    def text(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def parse(cls, text: bytes) -> Plan:
        """Raises ValueError."""
        found: dict[str, Any] = json.loads(text)
        if found.pop("version") != VERSION:
            raise ValueError("another version of GpuCluster wrote it")
        lists = {name: tuple(found[name]) for name in ("left_out", "classes", "counts", "offsets")}
        return cls(**{**found, **lists})


def counts(name: str, samples: int, shards: int, *, drop: bool) -> tuple[int, ...]:
    """Equal numbers; if they do not divide evenly, the first shards have one more each. Raises UsageError."""
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"--shards: must be 1 to {MOST_SHARDS:,}, got {shards}")
    if samples < shards:
        raise UsageError(f"{name}: {samples} samples cannot fill {shards} shards", f"use at most --shards {samples}")
    each, more = divmod(samples, shards)
    return tuple(each + (number < more and not drop) for number in range(shards))


def shuffled(samples: Sequence[Sample], seed: int) -> list[Sample]:
    """By a hash of seed and name: the same wherever and in whatever order they were listed, and in every Python."""
    key = seed.to_bytes(8, "little", signed=True)

    def order(sample: Sample) -> tuple[bytes, str]:
        name = sample.name.encode(errors="surrogateescape")
        return hashlib.blake2b(name, key=key, digest_size=16).digest(), sample.name

    return sorted(samples, key=order)


def make(
    name: str, source: str, samples: Sequence[Sample], classes: Sequence[str], *,
    shards: int, format: str, seed: int, drop: bool, check: bool, resize: str = "",
) -> tuple[Plan, bytes]:  # fmt: skip
    """The plan, and the text of SAMPLES. Raises UsageError."""
    per_shard = counts(name, len(samples), shards, drop=drop)
    if FORMATS[format].needs_labels and any(sample.label is None for sample in samples):
        raise UsageError(f"{source}: --format {format} needs a label in each record, but the list has none")
    ordered = shuffled(samples, seed)
    kept, rest = ordered[: sum(per_shard)], ordered[sum(per_shard) :]
    lines = [json.dumps(sample) + "\n" for sample in kept]
    starts = [0, *accumulate(len(line) for line in lines)]
    firsts = [0, *accumulate(per_shard)]
    text = "".join(lines).encode()
    plan = Plan(
        name=name, source=source, format=format, seed=seed, samples=len(kept), remainder=len(samples) % shards,
        left_out=tuple(sample.name for sample in rest), classes=tuple(classes), counts=per_shard,
        digest=hashlib.sha256(text).hexdigest(), check=check, resize=resize,
        offsets=tuple(starts[first] for first in firsts),
    )  # fmt: skip
    return plan, text


def stored(location: Location) -> Plan | None:
    """The plan of an unfinished data set. Raises DataError."""
    text = location.read(PLAN)
    try:
        return None if text is None else Plan.parse(text)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{location.url}/{PLAN}: cannot be read: {error}", "--restart starts again") from None


def store(location: Location, plan: Plan, samples: bytes) -> None:
    """Writes the plan last: if it exists, the samples do too."""
    location.write(f"{UNFINISHED}/{SAMPLES}", samples)
    location.write(PLAN, plan.text().encode())


def samples_of(location: Location, plan: Plan, shard: int) -> Iterator[Sample]:
    """Samples of a shard of an unfinished data set."""
    lines = location.part(f"{UNFINISHED}/{SAMPLES}", plan.offsets[shard], plan.offsets[shard + 1])
    return (Sample(*json.loads(line)) for line in lines.splitlines())
