"""Merge keys (`<<`) mean what they mean to other YAML readers: https://yaml.org/type/merge.html.

ruamel.yaml's loader and PyYAML's are the references.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpucluster.config import loads
from gpucluster.config.parse import parse
from gpucluster.errors import ConfigError
from gpucluster.job.load import read

numbers = st.integers(0, 99)
KEYS = ["a", "b", "c", "d"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A list of mappings, each of which may merge earlier ones: one, a list, or mappings written in place."""
    count = draw(st.integers(2, 7))
    return "\n".join(f"- &m{number} {draw(mappings(number))}" for number in range(count)) + "\n"


@st.composite
def mappings(draw: st.DrawFn, earlier: int, depth: int = 2) -> str:
    own = draw(st.dictionaries(st.sampled_from(KEYS), numbers, max_size=3))
    pairs = [f"{key}: {value}" for key, value in own.items()]
    if draw(st.booleans()):
        pairs.insert(draw(st.integers(0, len(pairs))), f"<<: {draw(sources(earlier, depth))}")
    return "{" + ", ".join(pairs) + "}"


@st.composite
def sources(draw: st.DrawFn, earlier: int, depth: int) -> str:
    one = [st.integers(0, earlier - 1).map("*m{} ".format)] if earlier else []
    if depth:
        one.append(mappings(earlier, depth - 1))
    each = st.one_of(one or [st.just("{}")])
    several = st.lists(each, max_size=4).map(lambda chosen: f"[{', '.join(chosen)}]")
    return draw(st.one_of(each, several))


@settings(max_examples=400, deadline=None)
@given(documents())
def test_merged_mappings_are_those_of_other_readers(text: str) -> None:
    document = parse(text, "x")
    assert not document.problems
    assert document.data == YAML(typ="safe", pure=True).load(text) == pyyaml.safe_load(text)


CHAIN = """
name: chained
region: us-east-1
partitions:
  - &base
    name: a
    instance_types: [g5.12xlarge]
    max_nodes: 2
  - &spot
    <<: *base
    name: b
    purchase: spot
  - <<: *spot
    name: c
    max_nodes: 3
"""


def test_a_partition_merges_one_that_merges_another() -> None:
    *_, last = loads(CHAIN).partitions
    assert (last.name, last.max_nodes, last.purchase) == ("c", 3, "spot")
    assert last.instance_types == ("g5.12xlarge",)


def test_an_invalid_merged_value_is_reported_where_it_is_written() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(CHAIN.replace("max_nodes: 2", "max_nodes: no"))
    assert {problem.line for problem in caught.value.problems} == {8}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("- &a {<<: *a }", "contains the alias itself", 1),
        ("- &a\n  x: 1\n  <<:\n    - {y: 2}\n    - {<<: *a }", "contains the alias itself", 1),
        ("- &a {x: 1}\n- &b {y: 1}\n- <<: *a\n  <<: *b", "'<<' is given twice", 4),
        ("- {<<: 5}", "<< can merge only mappings", 1),
        ("- {<<: null}", "<< can merge only mappings", 1),
        ("- {<<: [{a: 1}, b]}", "<< can merge only mappings", 1),
        ("- {<<: {a: 1, a: 2}}", "'a' is given twice", 1),
        ("- {<<: {[1]: 1}}", "a key must be a plain word", 1),
    ],
)
def test_what_cannot_be_merged(text: str, message: str, line: int) -> None:
    (problem,) = parse(text, "x").problems
    assert message in problem.message
    assert problem.line == line


def test_many_merges_of_merges_are_read_in_time() -> None:
    lines = ["- &m0 {" + ", ".join(f"k{number}: {number}" for number in range(10)) + "}"]
    lines += [f"- &m{number} {{<<: [{', '.join([f'*m{number - 1} '] * 20)}]}}" for number in range(1, 40)]
    data: Any = parse("\n".join(lines), "x").data
    assert data[-1] == {f"k{number}": number for number in range(10)}


@pytest.mark.parametrize("depth", [51, 300, 1500])
def test_deep_merges_are_stopped(depth: int) -> None:
    (problem,) = parse("{<<: " * depth + "{a: 1}" + "}" * depth, "x").problems
    assert problem.message == "nested too deeply"


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert parse('- {"<<": {a: 1}}', "x").data == [{"<<": {"a": 1}}]


EXTENSION = """
x-node: &node
  instance_types: [g5.12xlarge]
  max_nodes: 2
name: extended
region: us-east-1
partitions:
  - {<<: *node, name: a}
  - {<<: *node, name: b, max_nodes: 3}
"""


def test_keys_of_the_whole_file_that_begin_with_x_hold_anchors() -> None:
    first, second = loads(EXTENSION).partitions
    assert (first.max_nodes, second.max_nodes) == (2, 3)


def test_only_a_key_of_the_whole_file_may_begin_with_x() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(EXTENSION.replace("max_nodes: 3", "x-note: 3"))
    assert [(problem.key, problem.message) for problem in caught.value.problems] == [
        ("partitions[1].x-note", "unknown key")
    ]


def test_a_job_may_have_such_keys_too(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("x-env: &env {A: 1}\ncommand: [python, train.py]\nenv: {<<: *env, B: 2}\n")
    assert read(file).data == {"command": ["python", "train.py"], "env": {"A": 1, "B": 2}}
