"""Files of tests that the Makefile names: pytest ignores a file that is not there without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["CHECKS", "GOLDEN_TESTS"])
def test_files_in_the_makefile_exist(name: str) -> None:
    found = re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found and len(found[1].split()) >= 3
    assert [file for file in found[1].split() if not (ROOT / file).is_file()] == []
