"""The locks of the jobs' environments are what PyPI alone resolves to, complete: nothing floats."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUBJECTS = ["bootstrap/environments/*.txt", "tools/lock-environment.sh"]
COVERED_BY = "nothing: only PyPI can answer. Locks change only with tools/lock-environment.sh"
ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "bootstrap/environments").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_is_what_its_line_asks_for_and_no_more(lock: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    argv = ["bash", ROOT / "tools/lock-environment.sh", lock.stem]
    done = subprocess.run(argv, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == lock.read_text()
