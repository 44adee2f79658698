"""The input as names and labels.

SRC/SPLIT/CLASS/…/FILE      image folders; a data set for each split (train, val, …)
SRC/CLASS/…/FILE            one of its splits alone
LIST.txt .tsv .csv .lst     a file list
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpucluster.data import lists
from gpucluster.data.images import SUFFIXES
from gpucluster.data.lists import LISTS
from gpucluster.data.locations import Location, location
from gpucluster.errors import UsageError

SPLITS = ("train", "val", "valid", "validation", "test")


class Sample(NamedTuple):
    name: str
    """The name of its file, relative to the source."""
    label: int | None


@dataclass(frozen=True)
class Source:
    location: Location
    splits: Mapping[str, Sequence[Sample]]
    """"" if there are none: one data set."""
    classes: tuple[str, ...]
    """By label; the same for all splits. Empty where a list has numbers."""
    ignored: tuple[str, ...]
    """Hidden files and files that are not images."""


def read(url: str, excluded: Iterable[str] = ()) -> Source:
    """Raises UsageError, AwsError."""
    unwanted = frozenset(excluded)
    folder, _, name = url.rpartition("/")
    suffix = f".{name.rpartition('.')[2]}"
    if suffix in LISTS:
        return _of_list(location(folder or "."), name, suffix, unwanted)
    return _of_folders(location(url), unwanted)


def _of_folders(where: Location, excluded: frozenset[str]) -> Source:
    images, ignored = list[str](), list[str]()
    for name in where.listed():
        hidden = name.startswith(".") or "/." in name
        (ignored if hidden or not name.lower().endswith(SUFFIXES) else images).append(name)
    images = [name for name in images if name not in excluded]
    if not images:
        hint = f"images end with one of {' '.join(SUFFIXES)}; a file list ({' '.join(LISTS)}) may name any file"
        raise UsageError(f"{where.url}: no images among {len(ignored)} files", hint)
    _refuse_half_splits(where, images)
    with_splits = all(name.partition("/")[0] in SPLITS for name in images)
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in images:
        split, class_ = _split_and_class(where, name, with_splits)
        found[split].append((name, class_))
    classes = tuple(sorted({class_ for samples in found.values() for _, class_ in samples}))
    label = {class_: number for number, class_ in enumerate(classes)}
    splits = {
        split: [Sample(name, label[class_]) for name, class_ in samples] for split, samples in sorted(found.items())
    }
    return Source(where, splits, classes, tuple(sorted(ignored)))


def _refuse_half_splits(where: Location, images: Sequence[str]) -> None:
    """A stray folder beside splits would turn the splits into classes."""
    tops = sorted({name.partition("/")[0] for name in images if "/" in name})
    splits, others = [top for top in tops if top in SPLITS], [top for top in tops if top not in SPLITS]
    if splits and others:
        named = f"{', '.join(others[:3])}{' …' if len(others) > 3 else ''}"
        raise UsageError(
            f"{where.url}: has splits ({', '.join(splits)}), but also images in other folders: {named}",
            f"move those away, --exclude their images, or name only one split: {where.url}/{splits[0]}; "
            f"if all of them are classes, use a file list with labels: {' '.join(LISTS)}",
        )


def _split_and_class(where: Location, name: str, with_splits: bool) -> tuple[str, str]:
    parts = name.split("/")
    split = parts.pop(0) if with_splits else ""
    if len(parts) < 2:
        below = f"{where.url}/{split}".rstrip("/")
        raise UsageError(
            f"{where.url}/{name}: is not in the folder of a class",
            f"put images in {below}/CLASS/; use a file list ({' '.join(LISTS)}) for images without a class",
        )
    return split, parts[0]


def _of_list(where: Location, name: str, suffix: str, excluded: frozenset[str]) -> Source:
    rows = [row for row in lists.rows(where, name, suffix) if row[0] not in excluded]
    if not rows:
        raise UsageError(f"{where.url}/{name}: names no files")
    value, classes = lists.numbers(f"{where.url}/{name}", rows)
    samples = [Sample(file, None if label is None else value[label]) for file, label in rows]
    return Source(where, {"": samples}, classes, ())
