"""The input as names and labels.

SRC/SPLIT/CLASS/…/FILE      image folders; a data set for each split (train, val, …)
SRC/CLASS/…/FILE            one of its splits alone
LIST.txt .tsv .csv .lst     lines of FILE or FILE, LABEL; .lst as MXNet's im2rec has it: number, LABEL, FILE
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpucluster.data.images import SUFFIXES
from gpucluster.data.locations import Location, location
from gpucluster.errors import UsageError

SPLITS = ("train", "val", "valid", "validation", "test")
LISTS = {".txt": "\t", ".tsv": "\t", ".csv": ",", ".lst": "\t"}
"""Suffix -> separator of its columns."""


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
    content = where.read(name)
    if content is None:
        raise UsageError(f"{where.url}/{name}: no such file list")
    rows = list(_rows(f"{where.url}/{name}", content, suffix))
    rows = [row for row in rows if row[0] not in excluded]
    if not rows:
        raise UsageError(f"{where.url}/{name}: names no files")
    labels = {label for _, label in rows if label is not None}
    classes: tuple[str, ...] = ()
    value = {label: int(float(label)) for label in labels if _is_number(label)}
    if len(value) < len(labels):
        classes = tuple(sorted(labels))
        value = {label: number for number, label in enumerate(classes)}
    samples = [Sample(file, None if label is None else value[label]) for file, label in rows]
    return Source(where, {"": samples}, classes, ())


def _is_number(label: str) -> bool:
    """`3`, and im2rec's `3.000000`."""
    try:
        return float(label).is_integer()
    except (ValueError, OverflowError):
        return False


def _rows(url: str, content: bytes, suffix: str) -> Iterator[tuple[str, str | None]]:
    """File and label. Either all files have a label or none."""
    text = io.StringIO(content.decode(errors="surrogateescape"), newline="")
    width = None
    for number, row in enumerate(csv.reader(text, delimiter=LISTS[suffix], quotechar='"'), start=1):
        if not row or row[0].startswith("#"):
            continue
        width = width or len(row)
        if len(row) != width or len(row) not in ((3,) if suffix == ".lst" else (1, 2)):
            wanted = "number, label, file" if suffix == ".lst" else "file, or file and label, the same in all lines"
            separated = f"columns are separated by {'commas' if suffix == '.csv' else 'tabs'}"
            raise UsageError(f"{url}:{number}: {len(row)} columns, expected {wanted}", separated)
        if suffix == ".lst":
            yield row[2], row[1]
        else:
            yield row[0], row[1] if width == 2 else None
