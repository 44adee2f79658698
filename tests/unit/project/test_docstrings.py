"""Docstrings say what a thing is: one that begins with "Of" makes its reader look for the noun in the name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_no_docstring_begins_with_of() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = {name: (ROOT / name).read_text() for name in listed.stdout.split() if (ROOT / name).is_file()}
    assert len(texts) > 1000
    assert [name for name, text in texts.items() if re.search(r'""" ?Of ', text)] == []
