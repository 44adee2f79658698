"""Tabs, blanks and quotes that come with copied text: what YAML allows is read, and the rest is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucluster.config import loads
from gpucluster.config.parse import parse
from gpucluster.errors import ConfigError
from gpucluster.job.load import read

CLUSTER = """\
name: c
region: us-east-1
partitions:
  - name: train
    instance_types: [g5.12xlarge]
    max_nodes: 4
"""


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: b\t# c\n", {"a": "b"}),
        ("a:\tb\n", {"a": "b"}),
        ("a\t: b\t\nc: d", {"a": "b", "c": "d"}),
        ("-\ta\t\n- 'b'\t# c\n", ["a", "b"]),
        ("a: {b: c,\td: e}\t# x\n", {"a": {"b": "c", "d": "e"}}),
        ("\t\na: 1\n\t# c\n", {"a": 1}),
        ("a:\t# c\n  - b\n", {"a": ["b"]}),
        ("a: &x\t5\t\t# c\nb: *x\t\n", {"a": 5, "b": 5}),
        ("a: b\t c\t\n  d\n", {"a": "b\t c d"}),
        ("a: b#\tc\t#d\n", {"a": "b#\tc"}),
        ("a: |\n  b\tc\n", {"a": "b\tc\n"}),
        ("a: 'b\tc'\n", {"a": "b\tc"}),
    ],
)
def test_tabs_may_separate(text: str, data: Any) -> None:
    """YAML 1.2.2, sections 6.2 and 7.3.3."""
    document = parse(text, "x")
    assert (document.data, document.problems) == (data, ())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1\n", (2, 1)),
        ("\ta: 1\n", (1, 1)),
        ("a:\n- b\n \t- c\n", (3, 2)),
        ("a:\n  b: 1\t# c\n\tc: 2", (3, 1)),
    ],
)
def test_tabs_may_not_indent(text: str, place: tuple[int, int]) -> None:
    """YAML 1.2.2, section 6.1."""
    (problem,) = parse(text, "x").problems
    assert (problem.line, problem.column) == place
    assert problem.hint == "indent with spaces: YAML does not allow tabs"


@pytest.mark.parametrize(
    ("right", "pasted", "hint"),
    [
        ("- name", "-\u00a0name", "in line 4, column 4 has the no-break space (U+00A0): write a space instead"),
        ("name: c", "name:\u00a0c", "in line 1, column 6 has the no-break space (U+00A0): write a space instead"),
        ("    max", "\u00a0   max", "column 1 has the no-break space (U+00A0): write a space instead"),
        ("name: c", "na\u00adme: c", "did you mean 'name'? column 3 has the soft hyphen (U+00AD): remove it"),
        ("name: c", "name: c\u200b", "column 8 has the zero width space (U+200B): remove it"),
        ("name: c", "name: c\ufeff", "column 8 has the byte order mark (U+FEFF): remove it"),
        ("name: c", "name: \u201cc\u201d", 'column 7 has the left double quotation mark (U+201C): write " instead'),
        ("- name", "\u2013 name", "in line 4, column 3 has the en dash (U+2013): write - instead"),
        ("nodes: 4", "nodes\uff1a 4", "in line 6, column 14 has the fullwidth colon (U+FF1A): write : instead"),
        ("-east-", "\u2011east-", "column 11 has the non-breaking hyphen (U+2011): write - instead"),
        ("name: c", "name: c\x1b[0m", "column 8 has the control character (U+001B): remove it"),
    ],
)
def test_a_character_that_nobody_sees_is_named(right: str, pasted: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(CLUSTER.replace(right, pasted, 1))
    assert any(problem.hint and problem.hint.endswith(hint) for problem in caught.value.problems)


def test_a_comment_may_have_any_character() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(CLUSTER.replace("name: c", "name: 5 # it\u2019s\u00a0five"))
    assert [problem.hint for problem in caught.value.problems] == ['in quotes it is text: "5"']


def test_a_job_may_have_such_characters_in_its_values(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: [echo, \u201cça\u00a0va\u00a0?\u201d]\n", encoding="utf-8")
    assert read(file).data == {"command": ["echo", "\u201cça\u00a0va\u00a0?\u201d"]}


def test_columns_do_not_count_a_byte_order_mark() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("\ufeff" + CLUSTER.replace("name: c", "name: 5"))
    assert [(problem.line, problem.column, problem.hint) for problem in caught.value.problems] == [
        (1, 7, 'in quotes it is text: "5"')
    ]
