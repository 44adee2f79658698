"""docs/seeing.md lists every cause that `why` knows, with its test. `GOLDEN=rewrite` writes the table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from gpucluster.following.known.cause import Cause, OfTraining
from gpucluster.following.known.table import CAUSES

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/seeing.md"
BEGIN, END = "<!-- causes: make golden writes this table -->\n", "<!-- end of causes -->\n"
BOOTED = {"rank-missing": "tests/cluster/seeing/test_why_on_nodes.py"}
BY_CODE = {"samples": "test_slowness.py", "result": "tests/unit/job/test_data_wait.py"}


def table() -> Iterator[str]:
    yield "| state | cause | seen in | `why` says | test |"
    yield "|---|---|---|---|---|"
    for cause in CAUSES:
        words = cause.words.replace("{", "*").replace("}", "*")
        yield f"| {cause.state} | `{cause.id}` | {cause.place} | {words} | {_test(cause)} |"


def _test(cause: Cause) -> str:
    kind = "training" if cause.place in get_args(OfTraining) else cause.state
    own = BY_CODE.get(cause.place) or f"{kind}.toml"
    return own if cause.id not in BOOTED else f"{own}, {BOOTED[cause.id]}"


def test_the_page_lists_every_cause() -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + "".join(f"{line}\n" for line in table()) + END + after
    if os.environ.get("GOLDEN") == "rewrite":
        PAGE.write_text(made)
    assert PAGE.read_text() == made


def test_its_tests_exist() -> None:
    here = Path(__file__).parent
    for name in {*BOOTED.values(), *BY_CODE.values()}:
        assert (ROOT / name).exists() or (here / name).exists(), name


def test_its_table_is_long_enough() -> None:
    assert len(CAUSES) >= 30
