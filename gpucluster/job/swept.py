"""The values of one name of a sweep, as text: `0.1,0.01`, `1..5`, `[64,64],[128]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from gpucluster.config.value_checks import refuse
from gpucluster.job.arrays import FEWER, MAX_ELEMENTS, TOO_MANY

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = rf"({_NUMBER})\s*\.\.\s*({_NUMBER})(?:\s*\.\.\s*({_NUMBER}))?"
_WHOLE = r"-?\d+"
_LIKE_A_RANGE = (
    r"[-+]?\.?\d[\w.+-]*?\s*\.\.(?!/).*|\.\.+\s*[-+]?\d.*|[A-Za-z]\.\.[A-Za-z]|[A-Za-z]+\d+\.\.[A-Za-z]+\d+"
    r"|(range|arange|linspace|logspace|choice|interval|uniform|loguniform)\(.*\)"
)
_MOST_DIGITS = 12
"""Before or after the point. Decimal computes with 28."""
_OF_AN_ARRAY = r"(\d+)-(\d+)(?::(\d+))?"
_OPENING = {"]": "[", ")": "(", "}": "{"}
_QUOTED = "put a text into quotes: '…'"


class _Part(NamedTuple):
    text: str
    quoted: bool = False


def values(value: Any) -> Any:
    """A text as a list; a list and a single number stay as they are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value]
    if isinstance(value, (list, tuple)):
        for each in value:
            _check_listed(each)
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise refuse(f"must have a value, such as 0.1,0.01 or 1..5, got {value!r}")
    return [each for part in _parts(value) for each in _expanded(part)]


def _check_listed(value: Any) -> None:
    if isinstance(value, (list, tuple, dict)):
        raise refuse(f"write each value of the list as text: {str(value)!r}")
    if isinstance(value, str) and re.fullmatch(_RANGE, value.strip()):
        raise refuse(f"{value} is one value in a list: write the text {value} without the list")


def _parts(text: str) -> Iterator[_Part]:
    """Splits at the commas outside brackets and quotes."""
    start, open_brackets, quote = 0, list[str](), ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (open_brackets or not text[start:at].strip()):
            quote = letter
        elif letter in _OPENING.values():
            open_brackets.append(letter)
        elif letter in _OPENING:
            _close(letter, open_brackets)
        elif letter == "," and not open_brackets:
            yield _part(text[start:at])
            start = at + 1
    if quote or open_brackets:
        what = f"the quote {quote} is not closed" if quote else f"{open_brackets[-1]!r} is not closed"
        raise refuse(f"{what}, got {text!r}", _QUOTED)
    yield _part(text[start:])


def _close(letter: str, open_brackets: list[str]) -> None:
    if not open_brackets:
        raise refuse(f"{letter!r} closes nothing", _QUOTED)
    if (opened := open_brackets.pop()) != _OPENING[letter]:
        raise refuse(f"{letter!r} closes {opened!r}", _QUOTED)


def _part(text: str) -> _Part:
    found = re.fullmatch(r"""\s*(['"])(.*)\1\s*""", text, re.DOTALL)
    return _Part(found[2], True) if found and found[1] not in found[2] else _Part(text.strip())


def _expanded(part: _Part) -> list[str]:
    text = part.text
    if part.quoted:
        return [text]
    if not text:
        raise refuse("has an empty value: write '' for one, or remove the comma")
    if found := re.fullmatch(_OF_AN_ARRAY, text):
        step = f"..{found[3]}" if found[3] else ""
        raise refuse(f"{text} is no range here: write {found[1]}..{found[2]}{step}", _QUOTED)
    if "..." not in text and (found := re.fullmatch(_RANGE, text)):
        return _range(text, *found.groups())
    if re.fullmatch(_LIKE_A_RANGE, text, re.DOTALL):
        raise _no_range(text)
    return [text]


def _no_range(text: str) -> ValueError:
    return refuse(f"{text} is not a range: write 1..5, 10..50..20 or 0.1..0.3..0.1", f"{_QUOTED}; or list the values")


def _range(text: str, first: str, last: str, step: str | None) -> list[str]:
    if not step and not all(re.fullmatch(_WHOLE, each) for each in (first, last)):
        raise refuse(f"{text} needs a step: {first}..{last}..STEP", "or list the values: 0.1,0.2,0.3")
    low, high, width = Decimal(first), Decimal(last), abs(Decimal(step or "1"))
    if not width or any(abs(each.adjusted()) > _MOST_DIGITS for each in (low, high, width)):
        raise _no_range(text)
    count = int(abs(high - low) // width) + 1
    if count > MAX_ELEMENTS:
        raise refuse(f"{text} is {count} values, and {TOO_MANY}", FEWER)
    width = width if low <= high else -width
    digits = max(0, *(-int(each.as_tuple().exponent) for each in (low, width)))
    return [f"{low + index * width:{_padding(first, last)}.{digits}f}" for index in range(count)]


def _padding(first: str, last: str) -> str:
    """As in bash's {01..03}: a leading zero asks for the same number of characters."""
    both = (first, last)
    padded = any(re.fullmatch(r"-?0\d+", each) for each in both)
    return f"0{max(map(len, both))}" if padded else ""
