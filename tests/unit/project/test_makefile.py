"""Files of tests: those that the Makefile names exist, because pytest ignores a missing file without a word. Those that
run together have different names, because pytest imports each by its name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["CHECKS", "GOLDEN_TESTS"])
def test_files_in_the_makefile_exist(name: str) -> None:
    found = re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found and len(found[1].split()) >= 3
    assert [file for file in found[1].split() if not (ROOT / file).is_file()] == []


def test_files_that_run_together_have_different_names() -> None:
    apart = {ROOT / "tests" / folder for folder in ("chaos", "gpu")}
    names = [
        path.stem
        for folder in ("tests", "localcloud/tests")
        for path in (ROOT / folder).rglob("test_*.py")
        if not apart & set(path.parents)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []
