"""Golden files of nearly equal things: one is complete, and each of the others has only its differences from it.

A difference is JSON. "NOT HERE" removes a key; an object changes the values of its keys; in a list, "[3]" changes one
element and "[3:5]" replaces two. Everything else is the new value itself.
"""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

REFERENCE = "reference"
"""The example that has nearly everything."""
NOT_HERE = "NOT HERE"
WIDTH = 118
PLACE = re.compile(r"\[(\d+)(?::(\d+))?\]")


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def compact(value: Any, indent: int = 0) -> str:
    """JSON, with every value that fits on one line."""
    flat = text(value)
    if len(flat) + indent <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{text(key)}: {compact(value[key], indent + 1)}" for key in sorted(value, key=_order)]
    else:
        inner = [pad + compact(each, indent + 1) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join((opening, ",\n".join(inner), " " * indent + closing))


def _order(key: str) -> tuple[int, str]:
    return (int(place[1]) if (place := PLACE.fullmatch(key)) else -1), key


def difference(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {key: difference(old[key], new[key]) for key in old.keys() & new if text(old[key]) != text(new[key])}
        return (
            dict.fromkeys(old.keys() - new.keys(), NOT_HERE)
            | changed
            | {key: new[key] for key in new.keys() - old.keys()}
        )
    return _of_lists(old, new) if isinstance(old, list) and isinstance(new, list) else new


def _of_lists(old: list[Any], new: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    matcher = SequenceMatcher(None, [*map(text, old)], [*map(text, new)], autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if end - start == new_end - new_start:
            pairs = zip(range(start, end), range(new_start, new_end), strict=True)
            found |= {f"[{at}]": difference(old[at], new[there]) for at, there in pairs}
        else:
            found[f"[{start}:{end}]"] = new[new_start:new_end]
    return found


def applied(old: Any, change: Any) -> Any:
    """The new value, from the old one and the difference."""
    if not isinstance(change, dict):
        return change
    if isinstance(old, dict):
        kept = {key: value for key, value in old.items() if key not in change}
        return kept | {key: applied(old.get(key), each) for key, each in change.items() if each != NOT_HERE}
    if isinstance(old, list) and change and all(map(PLACE.fullmatch, change)):
        return _applied_to_list(old, change)
    return change


def _applied_to_list(old: list[Any], change: dict[str, Any]) -> list[Any]:
    new = list(old)
    places = {tuple(map(int, PLACE.fullmatch(key).groups("-1"))): each for key, each in change.items()}  # type: ignore[union-attr]
    for (start, end), each in sorted(places.items(), reverse=True):
        if end == -1:
            new[start] = applied(new[start], each)
        else:
            new[start:end] = each
    return new


def template(golden: Path, example: str) -> Any:
    """An example's, from the golden files."""
    whole = golden / example / "template.json"
    if whole.is_file():
        return json.loads(whole.read_text())
    change = json.loads((golden / example / "template.differences.json").read_text())
    return applied(template(golden, REFERENCE), change)


def write_template(golden: Path, example: str, reference: Any, new: Any) -> None:
    name, value = ("template.json", new) if example == REFERENCE else _differences("template", reference, new)
    _write(golden / example / name, compact(value) + "\n")


def bundle(golden: Path, example: str) -> dict[str, str]:
    """An example's files, name to text, from the golden ones."""
    folder = golden / example / "bundle"
    if folder.is_dir():
        return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    change = json.loads((golden / example / "bundle.differences.json").read_text())
    return {name: "\n".join(lines) for name, lines in applied(_lines(bundle(golden, REFERENCE)), change).items()}


def write_bundle(golden: Path, example: str, reference: dict[str, str], new: dict[str, str]) -> None:
    if example != REFERENCE:
        name, value = _differences("bundle", _lines(reference), _lines(new))
        return _write(golden / example / name, compact(value) + "\n")
    for left_over in set(bundle(golden, example)) - set(new):
        (golden / example / "bundle" / left_over).unlink()
    for name, content in new.items():
        _write(golden / example / "bundle" / name, content)


def _lines(files: dict[str, str]) -> dict[str, list[str]]:
    return {name: content.split("\n") for name, content in files.items()}


def _differences(of: str, reference: Any, new: Any) -> tuple[str, Any]:
    return f"{of}.differences.json", difference(reference, new)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
