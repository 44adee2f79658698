"""No module imports itself through others, not even where import-linter does not look because folders do, nor inside a
function."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[3]


def skipped(file: str) -> set[str]:
    """The rooms that contracts against circles skip."""
    contracts = tomllib.loads((ROOT / file).read_text())["tool"]["importlinter"]["contracts"]
    return {room for each in contracts for room in each.get("skip_descendants", ())}


ROOMS = sorted(skipped("pyproject.toml") | skipped("localcloud/pyproject.toml"))


def circle(imports: Mapping[str, Set[str]]) -> list[str]:
    """Modules of which each imports the next, and the last is the first; empty if there is no such circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as found:
        return list(reversed(found.args[1]))
    return []


def imports_of(room: str) -> Mapping[str, Set[str]]:
    """What the modules of the room import of each other, without imports for types alone."""
    graph = grimp.build_graph(room.partition(".")[0], exclude_type_checking_imports=True, cache_dir=None)
    inside = {room, *graph.find_descendants(room)}
    return {each: graph.find_modules_directly_imported_by(each) & inside for each in inside}


@pytest.mark.parametrize("room", ROOMS)
def test_modules_import_each_other_in_no_circle(room: str) -> None:
    imports = imports_of(room)
    assert len(imports) > 40, "the room was found"
    assert circle(imports) == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})[1:] in (list("bca"), list("cab"), list("abc"))
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
