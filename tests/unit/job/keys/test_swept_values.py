"""The values of a sweep as text: each is what its writer meant, or the sweep is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import load
from gpucluster.layout import expand

LAYOUT = expand(
    loads("name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 4}]\n")
)


def swept(text: Any) -> list[str]:
    spec = load(LAYOUT, None, {"command": ("python", "train.py"), "sweep": {"x": text}})
    return list(spec.sweep["x"])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[64,64],[128]", ["[64,64]", "[128]"]),
        ("[[1,2],[3]],(4,5), {a: 1, b: 2}", ["[[1,2],[3]]", "(4,5)", "{a: 1, b: 2}"]),
        ('["a,]",b],c', ['["a,]",b]', "c"]),
        ("'a,b',c", ["a,b", "c"]),
        ("\"it's\", '\"'", ["it's", '"']),
        ("it's,that's", ["it's", "that's"]),
        ("'1-5','1..3',\"\"", ["1-5", "1..3", ""]),
        ("'single'", ["single"]),
        ("1..3", ["1", "2", "3"]),
        ("3..1,7", ["3", "2", "1", "7"]),
        ("-1..1", ["-1", "0", "1"]),
        ("1 .. 3", ["1", "2", "3"]),
        ("10..50..20", ["10", "30", "50"]),
        ("10..1..-4", ["10", "6", "2"]),
        ("01..03", ["01", "02", "03"]),
        ("8..010", ["008", "009", "010"]),
        ("-01..1", ["-01", "000", "001"]),
        ("0.1..0.3..0.1", ["0.1", "0.2", "0.3"]),
        ("0..1..0.25", ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        ("1e-3..3e-3..1e-3", ["0.001", "0.002", "0.003"]),
        ("../data,..,a/../b,v1.0..rc", ["../data", "..", "a/../b", "v1.0..rc"]),
        ("2020-01-02,1-5-7,a-b,-5,12:30", ["2020-01-02", "1-5-7", "a-b", "-5", "12:30"]),
        (["1-5", "[1,2]", "a,b"], ["1-5", "[1,2]", "a,b"]),
    ],
)
def test_values(text: Any, values: list[str]) -> None:
    """Padding as in bash's {01..03} (man bash, Brace Expansion)."""
    assert swept(text) == values


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0.1..0.3", "0.1..0.3 needs a step: 0.1..0.3..STEP"),
        ("1e-4..1e-2", "needs a step"),
        ("1..5..0", "is not a range: write 1..5, 10..50..20 or 0.1..0.3..0.1"),
        ("1..5..1e-30", "is not a range"),
        ("1e400..1e999..1", "is not a range"),
        ("1...5", "is not a range"),
        ("1..", "is not a range"),
        ("..5", "is not a range"),
        ("1..n", "is not a range"),
        ("a..e", "is not a range"),
        ("v1..v3", "is not a range"),
        ("1..3..x", "is not a range"),
        ("1-5", "1-5 is no range here: write 1..5"),
        ("7,1-5", "1-5 is no range here: write 1..5"),
        ("1-9:2", "1-9:2 is no range here: write 1..9..2"),
        ("range(1,5)", "is not a range"),
        ("linspace(0, 1, 5)", "is not a range"),
        ("a,,b", "has an empty value: write '' for one, or remove the comma"),
        ("a,", "has an empty value"),
        (",a", "has an empty value"),
        ("[64,64", "'[' is not closed"),
        ("64]", "']' closes nothing"),
        ("(0,1]", "']' closes '('"),
        ("'a,b", "the quote ' is not closed"),
        ("0..1..0.0001", "0..1..0.0001 is 10001 values"),
        (["1..3", "7"], "1..3 is one value in a list: write the text 1..3 without the list"),
        ([[64, 64], [128]], "write each value of the list as text: '[64, 64]'"),
        ([{"a": 1}], "write each value of the list as text"),
    ],
)
def test_what_is_no_value(text: Any, problem: str) -> None:
    with pytest.raises(JobSpecError) as raised:
        swept(text)
    (found,) = raised.value.problems
    assert problem in f"{found.message}; {found.hint}" and found.key.startswith("--sweep.x")
