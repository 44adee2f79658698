"""Golden files as differences: whatever changes, the difference brings it back, and the check sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import snapshots
from tests.snapshots import applied, compact, difference

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b", "[0]"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=20,
)


objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, objects)
def test_a_difference_brings_the_new_value_back(old: dict[str, Any], new: dict[str, Any]) -> None:
    written = json.loads(compact(difference(old, new)))
    assert compact(applied(old, written)) == compact(new)


@given(values)
def test_nothing_is_lost_in_what_is_written(value: Any) -> None:
    assert json.dumps(json.loads(compact(value)), sort_keys=True) == json.dumps(value, sort_keys=True)


def test_a_difference_is_small_and_names_what_differs() -> None:
    old = {"Rules": [{"Port": 22}, {"Port": 443}, {"Port": 80}], "Size": 1, "Gone": "x"}
    new = {"Rules": [{"Port": 22}, {"Port": 444}, {"Port": 80}, {"Port": 81}], "Size": True, "Come": [1]}
    expected = {"Come": [1], "Gone": "NOT HERE", "Rules": {"[1]": {"Port": 444}, "[3:3]": [{"Port": 81}]}, "Size": True}
    assert difference(old, new) == expected


def test_a_bundle_and_a_template_are_read_as_they_were_written(tmp_path: Path) -> None:
    whole = {"head.sh": "a\nb\n", "beegfs.sh": "c"}
    other = {"head.sh": "a\nB\n", "slurm/slurm.conf": "\n"}
    for example, files in (("reference", whole), ("small", other)):
        (tmp_path / example / "bundle").mkdir(parents=True)
        (tmp_path / example / "bundle" / "left-over").touch()
        if example != "reference":
            (tmp_path / example / "bundle" / "left-over").unlink()
            (tmp_path / example / "bundle").rmdir()
        snapshots.write_bundle(tmp_path, example, whole, files)
        snapshots.write_template(tmp_path, example, {"A": 1}, {"A": len(files), "B": [example]})
    assert snapshots.bundle(tmp_path, "reference") == whole and snapshots.bundle(tmp_path, "small") == other
    assert snapshots.template(tmp_path, "small") == {"A": 2, "B": ["small"]}


@pytest.mark.parametrize("name", ["template.differences.json", "bundle.differences.json"])
def test_examples_differ_little_from_the_reference(name: str) -> None:
    """Where a difference grows as large as the whole, another reference would be better."""
    found = [*(Path(snapshots.__file__).parent / "golden").glob(f"*/{name}")]
    assert len(found) == 7
    assert [path for path in found if path.read_text().count("\n") >= 1000] == []
