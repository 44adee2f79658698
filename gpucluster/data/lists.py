"""File lists: lines of FILE or FILE, LABEL; in a .lst file of MXNet's im2rec: number, LABEL, FILE."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpucluster.data.locations import Location
from gpucluster.encoding import decoded, flaw
from gpucluster.errors import UsageError

LISTS = {".txt": "\t", ".tsv": "\t", ".csv": ",", ".lst": "\t"}
"""Suffix -> separator of its columns."""
UTF8 = "save it as UTF-8"
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "blanks"}
_LOOKED_AT = 5
"""The first names of a list, which are looked for before anything is packed; reading one costs little."""
_NUMBER = re.compile(r"([+-]?\d+)(\.0*)?", re.ASCII)
"""`3`, and im2rec's `3.000000`. float() would also read 1_10 and infinity, which are names."""
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

Row = tuple[str, str | None]
"""File and label."""


def rows(where: Location, name: str, suffix: str) -> list[Row]:
    """Either all files have a label or none. Raises UsageError, AwsError."""
    content, url = where.read(name), f"{where.url}/{name}"
    if content is None:
        raise UsageError(f"{url}: no such file list")
    try:
        text = decoded(content, "surrogateescape")
    except UnicodeDecodeError as error:
        raise UsageError(f"{url}: {flaw(error)}", UTF8) from None
    numbered = list(_numbered(url, text, suffix))
    _refuse_other_encoding(where, url, content, [file for _, (file, _) in numbered])
    if all(label is None for _, (_, label) in numbered):
        _refuse_other_separator(where, url, suffix, numbered[:_LOOKED_AT])
    return [row for _, row in numbered]


def _numbered(url: str, text: str, suffix: str) -> Iterator[tuple[int, Row]]:
    """With the numbers of their lines."""
    width = None
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=LISTS[suffix], quotechar='"')
    for number, row in enumerate(lines, start=1):
        if not row or row[0].startswith("#"):
            continue
        width = width or len(row)
        if len(row) != width or len(row) not in ((3,) if suffix == ".lst" else (1, 2)):
            wanted = "number, label, file" if suffix == ".lst" else "file, or file and label, the same in all lines"
            separated = f"{_SEPARATORS[LISTS[suffix]]} separate the columns"
            raise UsageError(f"{url}:{number}: {len(row)} columns, expected {wanted}", separated)
        if suffix == ".lst":
            yield number, (row[2], row[1])
        else:
            yield number, (row[0], row[1] if width == 2 else None)


def _exists(where: Location, name: str) -> bool:
    return bool(name) and all(isinstance(content, bytes) for content in where.contents([name]))


def _refuse_other_encoding(where: Location, url: str, content: bytes, names: Iterable[str]) -> None:
    """A name may be any bytes on a disk. One that no file has is rather text in another encoding."""
    try:
        decoded(content)
    except UnicodeDecodeError as error:
        odd = next((name for name in names if not name.isprintable() and _has_raw_bytes(name)), None)
        if odd and not _exists(where, odd):
            raise UsageError(f"{url}: {flaw(error)}", UTF8) from None


def _has_raw_bytes(name: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in name)


def _refuse_other_separator(where: Location, url: str, suffix: str, numbered: Sequence[tuple[int, Row]]) -> None:
    """If a line names no file, but what stands before another separator does."""
    for number, (line, _) in numbered:
        found = [word for separator, word in _SEPARATORS.items() if _named_before(where, line, separator)]
        if found:
            own = _SEPARATORS[LISTS[suffix]]
            raise UsageError(
                f"{url}:{number}: {own} separate the columns of a {suffix} list, not {found[0]}: {line!r}",
                f"replace the {found[0]} between file and label",
            )


def _named_before(where: Location, line: str, separator: str) -> bool:
    """`a b.jpg  3`, and several labels: `a.jpg 0 1`."""
    if separator not in line or _exists(where, line):
        return False
    names = {line.partition(separator)[0].rstrip(), line.rpartition(separator)[0].rstrip()}
    return any(_exists(where, name) for name in names)


def numbers(url: str, listed: Iterable[Row]) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """The number of each label; and the labels in the order of their numbers if they are names. Raises UsageError."""
    first: dict[str, str] = {}
    for file, label in listed:
        if label is not None:
            first.setdefault(label, file)
    _refuse_mixture(url, first)
    found = {label: int(number[1]) for label in first if (number := _NUMBER.fullmatch(label))}
    if found:
        return found, ()
    classes = tuple(sorted(first))
    return {label: number for number, label in enumerate(classes)}, classes


def _refuse_mixture(url: str, first: Mapping[str, str]) -> None:
    """As names, 0, 1 and unknown would silently become 0, 1 and 2, and 0.5 the number of a class."""
    hint = "labels are all whole numbers, or all names, which are numbered in their order"
    whole = next((label for label in first if _NUMBER.fullmatch(label)), None)
    for label, file in first.items():
        if not label.strip():
            raise UsageError(f"{url}: {file} has an empty label", hint)
        if not _NUMBER.fullmatch(label) and _FRACTION.fullmatch(label):
            raise UsageError(f"{url}: {file} has the label {label!r}, which is no whole number", hint)
        if whole is not None and not _NUMBER.fullmatch(label):
            other = f"{first[whole]} has the number {whole}"
            raise UsageError(f"{url}: {file} has the label {label!r}, but {other}", hint)
