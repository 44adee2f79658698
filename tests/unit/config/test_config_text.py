"""Loading any text gives a config or a ConfigError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpucluster.config import ClusterConfig, load, loads
from gpucluster.config.parse import MAX_VALUES, parse
from gpucluster.errors import ConfigError

FIELDS = sorted(ClusterConfig.model_fields)
PARTITION = ["name", "instance_types", "min_nodes", "max_nodes", "efa", "purchase", "placement_group", "image", "tag"]
STORAGE = ["mount", "type", "capacity_gib", "partition", "gib_per_node", "data_repositories", "deployment"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["train", "ps", "g5.xlarge", "p4d.24xlarge", "us-east-1", "required", "fsx-lustre", "beegfs-ram", "/home"]
    ),
)
lists = st.lists(scalars, max_size=3)


def mapping(keys: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(keys), values, max_size=8)


partitions = st.lists(st.one_of(mapping(PARTITION, st.one_of(scalars, lists)), scalars), max_size=3)
storages = st.lists(st.one_of(mapping(STORAGE, st.one_of(scalars, lists)), scalars), max_size=3)
files = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.one_of(scalars, lists, mapping(["a", "vpc_cidr", "instance_type"], scalars)) for name in FIELDS},
        "partitions": st.one_of(partitions, scalars),
        "storage": st.one_of(storages, scalars),
    },
)


def loads_or_refuses(text: str) -> None:
    try:
        config = loads(text)
    except ConfigError as error:
        assert error.problems
        assert all(problem.line >= 1 and problem.column >= 1 for problem in error.problems if problem.source)
        error.render()
    else:
        assert config.name


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    loads_or_refuses(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=":-{}[]&*!|>%@`'\"#,? \n\tab1<", max_size=40))
def test_any_punctuation(text: str) -> None:
    loads_or_refuses(text)


@settings(max_examples=300, deadline=None)
@given(files)
def test_any_values_under_the_right_keys(data: dict[str, Any]) -> None:
    loads_or_refuses(json.dumps(data))


def test_aliases_of_aliases_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match=f"more than {MAX_VALUES} values"):
        loads("\n".join(lines))


@pytest.mark.parametrize("depth", [51, 300, 500, 1500])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_deep_nesting_is_stopped(pair: str, depth: int) -> None:
    opening, closing = ("[", "]") if pair == "[]" else ("{a: ", "}")
    with pytest.raises(ConfigError, match="nested too deeply"):
        loads("name: " + opening * depth + closing * depth)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"name: \xff\n", "is not UTF-8 text: byte 6 is 0xff"),
        (b"name: a\x00b\n", "control character"),
        (b"\xef\xbb\xbf# a byte order mark\n- 1\n", "must be a section"),
    ],
)
def test_binary_files_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "cluster.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load(path)
    assert caught.value.render().startswith(f"{path}:")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: 5\r\nregion: 6\r\n", ["1:7", "2:9"]),
        ("# one\n\nname: {}\n", ["3:7"]),
        ("name: >\n  two\n  lines\n", ["1:7"]),
    ],
)
def test_places_count_lines_as_editors_do(text: str, place: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    found = [
        f"{problem.line}:{problem.column}" for problem in caught.value.problems if problem.key in ("name", "region")
    ]
    assert [where for where in found if where in place] == place


def test_values_are_those_that_yaml_means() -> None:
    """For every kind of plain value, our own parsing gives the same as ruamel.yaml's loader."""
    text = "a: 1\nb: 0x1f\nc: 0o17\nd: 1.5\ne: 1e3\nf: .inf\ng: true\nh: null\ni: ~\nj: off\n"
    text += "k: 'q'\nl: |\n  x\n  y\nm: [1, {n: 2}]\n"
    assert parse(text, "x").data == YAML(typ="safe", pure=True).load(text)
