"""The table that `make chaos` writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def chaos() -> Any:
    """tests/chaos, which pytest imports only if the command line names it."""
    sys.path.insert(0, str(ROOT / "tests" / "chaos"))
    try:
        import table
    finally:
        sys.path.pop(0)
    return type("chaos", (), {"Cells": table.Cells, "Table": table.Table, "BEGIN": table.BEGIN, "END": table.END})


def row(chaos: Any, fault: str, seconds: int, lost: int = 0) -> Any:
    return chaos.Cells(fault, "`why`: a | b", "runs again", seconds, 0, lost)


def test_each_fault_is_one_line_with_the_seconds_of_all_its_sittings(chaos: Any, tmp_path: Path) -> None:
    table = chaos.Table()
    table.add(row(chaos, "slurmd is killed", 2), 1)
    table.add(row(chaos, "a node ends", 31, lost=1), 1)
    table.add(row(chaos, "slurmd is killed", 4), 2)
    file = tmp_path / "page.md"
    file.write_text(f"# Before\n\n{chaos.BEGIN}\n{chaos.END}\n\n## After\n")
    table.write(file)
    before, after = file.read_text().split(chaos.BEGIN)
    assert before == "# Before\n\n" and after.endswith(f"\n{chaos.END}\n\n## After\n")
    assert "2 faults. The last run, of 2 rows on one cluster, 2 times each," in after
    assert "| slurmd is killed | `why`: a \\| b | runs again | 2, 4 | 0 | 0 |" in after
    assert "| a node ends | `why`: a \\| b | runs again | 31 | 0 | 1 |" in after


def test_a_later_run_replaces_its_rows_and_keeps_the_others(chaos: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"{chaos.BEGIN}\n{chaos.END}\n")
    first, second = chaos.Table(), chaos.Table()
    first.add(row(chaos, "slurmd is killed", 2), 1)
    first.add(row(chaos, "a node ends", 31), 1)
    first.write(file)
    second.add(row(chaos, "slurmd is killed", 7), 1)
    second.write(file)
    text = file.read_text()
    assert text.count("| slurmd is killed |") == 1 and "| runs again | 7 |" in text and "| runs again | 31 |" in text
    assert text.count("| fault |") == 1 and "2 faults. The last run, of 1 rows on one cluster" in text
