"""Which sample goes into which shard. Decided once, from names, seed and number of shards alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

from gpucluster.data.places import UNFINISHED, Place
from gpucluster.data.records import FORMATS, Format
from gpucluster.data.source import Sample
from gpucluster.errors import DataError, UsageError

VERSION = 1
MOST_SHARDS = 999_999
SAMPLES = "samples.jsonl"
"""Line by line what each sample is: file and label. Line 0 is sample 000000000 of the first shard."""
PLAN = f"{UNFINISHED}/plan.json"


@dataclass(frozen=True)
class Plan:
    name: str
    """Shards are called NAME-000000.tar and so on."""
    source: str
    """Its address: files of the same names elsewhere may be others."""
    format: str
    seed: int
    samples: int
    """That are in shards."""
    remainder: int
    """How many are too many for equal shards: in the first shards, one each, or left out."""
    left_out: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    """Of samples, by shard."""
    digest: str
    """Of the order of samples."""
    check: bool = True
    """Whether each image is looked at."""
    offsets: tuple[int, ...] = field(default=(), repr=False)
    """By shard, where its lines begin in SAMPLES; and where the last one's end."""

    @property
    def kind(self) -> Format:
        return FORMATS[self.format]

    @property
    def id(self) -> str:
        """The same where the same shards come out of the same files, wherever those lie."""
        told = {name: value for name, value in asdict(self).items() if name not in ("source", "offsets", "check")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def shard(self, number: int) -> str:
        return f"{self.name}-{number:06d}{self.kind.suffix}"

    def index(self, number: int) -> str:
        """Its index's name; the shard's own where the format has none."""
        return f"{self.name}-{number:06d}{self.kind.index_suffix or self.kind.suffix}"

    def first(self, number: int) -> int:
        """Of the shard's samples, its number in the data set."""
        return sum(self.counts[:number])

    def text(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def parse(cls, text: bytes) -> Plan:
        """Raises ValueError."""
        found: dict[str, Any] = json.loads(text)
        if found.pop("version") != VERSION:
            raise ValueError("it is of another version of this program")
        lists = {name: tuple(found[name]) for name in ("left_out", "classes", "counts", "offsets")}
        return cls(**{**found, **lists})


def counts(name: str, samples: int, shards: int, *, drop: bool) -> tuple[int, ...]:
    """As many in each; the first ones have one more where it does not come out even. Raises UsageError."""
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"--shards: must be 1 to {MOST_SHARDS:,}, got {shards}")
    if samples < shards:
        raise UsageError(
            f"{name}: {samples} samples cannot fill {shards} shards", f"ask for at most --shards {samples}"
        )
    each, more = divmod(samples, shards)
    return tuple(each + (number < more and not drop) for number in range(shards))


def shuffled(samples: Sequence[Sample], seed: int) -> list[Sample]:
    """By a hash of seed and name: the same wherever and in whatever order they were listed, and in every Python."""
    key = seed.to_bytes(8, "little", signed=True)

    def place(sample: Sample) -> tuple[bytes, str]:
        name = sample.name.encode(errors="surrogateescape")
        return hashlib.blake2b(name, key=key, digest_size=16).digest(), sample.name

    return sorted(samples, key=place)


def make(
    name: str, source: str, samples: Sequence[Sample], classes: Sequence[str], *,
    shards: int, format: str, seed: int, drop: bool, check: bool,
) -> tuple[Plan, bytes]:  # fmt: skip
    """The plan, and the text of SAMPLES. Raises UsageError."""
    per_shard = counts(name, len(samples), shards, drop=drop)
    if FORMATS[format].needs_labels and any(sample.label is None for sample in samples):
        raise UsageError(f"{source}: --format {format} has a label in each record, and the list has none")
    ordered = shuffled(samples, seed)
    kept, rest = ordered[: sum(per_shard)], ordered[sum(per_shard) :]
    lines = [json.dumps(sample) + "\n" for sample in kept]
    starts = [0, *accumulate(len(line) for line in lines)]
    firsts = [0, *accumulate(per_shard)]
    text = "".join(lines).encode()
    plan = Plan(
        name=name, source=source, format=format, seed=seed, samples=len(kept), remainder=len(samples) % shards,
        left_out=tuple(sample.name for sample in rest), classes=tuple(classes), counts=per_shard,
        digest=hashlib.sha256(text).hexdigest(), check=check, offsets=tuple(starts[first] for first in firsts),
    )  # fmt: skip
    return plan, text


def stored(place: Place) -> Plan | None:
    """The plan of what is unfinished there. Raises DataError."""
    text = place.read(PLAN)
    try:
        return None if text is None else Plan.parse(text)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{place.url}/{PLAN}: cannot be read: {error}", "--restart begins anew") from None


def store(place: Place, plan: Plan, samples: bytes) -> None:
    """The plan last: where it is, the samples are."""
    place.write(f"{UNFINISHED}/{SAMPLES}", samples)
    place.write(PLAN, plan.text().encode())


def samples_of(place: Place, plan: Plan, shard: int) -> Iterator[Sample]:
    """Of an unfinished data set."""
    lines = place.part(f"{UNFINISHED}/{SAMPLES}", plan.offsets[shard], plan.offsets[shard + 1])
    return (Sample(*json.loads(line)) for line in lines.splitlines())
