"""Whole cluster files: accepted ones, and the exact messages for the others.

In `tests/data/config/`, `invalid/NAME.yaml` is a user's file and `said/NAME.txt` what `gpucluster validate` prints.
`GOLDEN=rewrite` writes the latter anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucluster.config import ClusterConfig, load, loads
from gpucluster.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
SAID = {
    "p3-beegfs-mxnet": {"storage"},  # BeeGFS's kernel module and licence
}
DATA = ROOT / "tests" / "data" / "config"
INVALID = sorted(DATA.glob("invalid/*.yaml"))
VALID = sorted(DATA.glob("valid/*.yaml"))
SHIPPED = [
    ROOT / "cluster.yaml",
    *(
        ROOT / "examples" / f"{name}.yaml"
        for name in ("g5-spot", "no-internet", "p4d-fsx-smddp", "p5-capacity-block", "p5-on-demand", "p3-beegfs-mxnet")
    ),
]


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_every_problem_is_reported_in_these_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with pytest.raises(ConfigError) as caught:
        load(path.name)
    printed = caught.value.render() + "\n"
    golden = DATA / "said" / f"{path.stem}.txt"
    if os.environ.get("GOLDEN") == "rewrite":
        golden.write_text(printed)
    assert printed == golden.read_text()


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_valid_files_load_as_they_are_and_again_from_their_dump(path: Path) -> None:
    config = load(path)
    assert ClusterConfig.model_validate(config.model_dump(by_alias=True)).model_dump() == config.model_dump()


@pytest.mark.parametrize("path", SHIPPED, ids=name_of)
def test_shipped_files_cause_only_expected_warnings(path: Path) -> None:
    config = load(path)
    said = {notice.key.partition("[")[0] for notice in config.warnings()}
    assert said == SAID.get(path.stem, set())


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in DATA.glob("said/*.txt")} == {path.stem for path in INVALID}


def test_one_wrong_value_does_not_hide_a_combination_in_the_same_partition() -> None:
    with pytest.raises(ConfigError) as caught:
        load(DATA / "invalid/value-and-combination.yaml")
    assert [problem.key for problem in caught.value.problems] == [
        "partitions[0].instance_types[1]",
        "partitions[0].instance_types[2]",
        "partitions[0].min_nodes",
        "partitions[0].efa",
    ]


def test_merged_keys_keep_what_the_partition_says_itself() -> None:
    first, second = load(DATA / "valid/merge-keys.yaml").partitions
    assert (second.name, second.max_nodes) == ("b", 3)
    assert (second.instance_types, second.idle_minutes) == (first.instance_types, 0.5)


def test_the_caret_keeps_tabs_so_that_it_lands_under_its_column() -> None:
    with pytest.raises(ConfigError) as caught:
        loads('{"name": "a",\t"region": 5}')
    assert """  {"name": "a",\t"region": 5}\n               \t          ^""" in caught.value.render()


def test_a_long_line_is_cut_around_the_caret() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(
            '{"name": "a", "partitions": [' + '"x", ' * 100 + '"y"], "region": 5, "s3_access": [' + '"x", ' * 90 + "]}"
        )
    (problem,) = (problem for problem in caught.value.problems if problem.key == "region")
    _, line, caret, _ = problem.render().split("\n")
    assert len(line) < 170 and line.strip().startswith("…") and line.endswith("…")
    assert line[caret.index("^") :].startswith("5, ")
