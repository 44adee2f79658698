"""docs/existing-slurm.md lists every key of ParallelCluster. `GOLDEN=rewrite` writes the table from keys.csv."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpucluster.config import ClusterConfig
from gpucluster.parallelcluster.keys import SAID, keys, row
from tests.unit.config.test_config_reference import keys_of_models

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/existing-slurm.md"
BEGIN, END = "<!-- keys: make golden writes this table -->\n", "<!-- end of keys -->\n"
SCHEMA = (ROOT / "tests/data/parallelcluster/keys.txt").read_text().split()


def table() -> Iterator[str]:
    yield "| ParallelCluster | cluster.yaml | difference |"
    yield "|---|---|---|"
    merged: dict[tuple[str, str, str], list[str]] = {}
    for key in keys().values():
        merged.setdefault((key.how, key.ours, key.words), []).append(f"`{key.path.removeprefix('Scheduling.')}`")
    for (how, ours, words), paths in merged.items():
        cell = f"`{ours}`" if ours and how != "none" else SAID[how]
        yield f"| {', '.join(paths)} | {cell} | {words} |"


def test_the_page_lists_every_key() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + "".join(f"{line}\n" for line in table()) + END + after
    if os.environ.get("GOLDEN") == "rewrite":
        PAGE.write_text(made)
    assert PAGE.read_text() == made


def test_every_key_of_the_schema_has_a_row() -> None:
    assert [path for path in SCHEMA if not row(path)] == []


def test_every_key_of_ours_exists() -> None:
    named = {name for key in keys().values() for name in key.ours.replace("[]", "").split(", ") if name[:1] != "."}
    assert named - {""} - set(keys_of_models(ClusterConfig)) == set()


def test_no_row_is_for_a_key_that_the_schema_lacks() -> None:
    sections = {".".join(key.split(".")[:length]) for key in SCHEMA for length in range(1, key.count(".") + 2)}
    assert not keys().keys() - sections
