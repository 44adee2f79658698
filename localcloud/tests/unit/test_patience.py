"""Limits of waits grow with the load, and still end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from localcloud.testing import patience

CORES = os.cpu_count() or 1


@pytest.fixture
def load(tmp_path: Path) -> Path:
    """Simulates a machine with four programs per core."""
    file = tmp_path / "loadavg"
    file.write_text(f"{4 * CORES}.00 1.00 1.00 1/500 12345\n")
    return file


@pytest.mark.parametrize(
    ("last_minute", "now", "expected"), [(0.1, 1, 1), (4 * CORES, 1, 4), (0.1, 3 * CORES, 3), (CORES, CORES, 1)]
)
def test_slowness_is_the_number_of_programs_per_core(
    tmp_path: Path, last_minute: float, now: int, expected: float
) -> None:
    file = tmp_path / "loadavg"
    file.write_text(f"{last_minute:.2f} 9.00 9.00 {now}/500 12345\n")
    assert patience.slowness(file) == pytest.approx(expected)


def test_this_machine_says_how_loaded_it_is() -> None:
    assert patience.slowness() >= 1


def test_a_wait_on_a_loaded_machine_is_longer(monkeypatch: pytest.MonkeyPatch, load: Path) -> None:
    monkeypatch.setattr(patience, "seconds", patience.QuietClock(load))
    begun = time.monotonic()
    with pytest.raises(AssertionError, match="the moon: not within 0.1 s of a quiet machine"):
        patience.wait_for("the moon", lambda: None, 0.1, 0.01)
    assert time.monotonic() - begun >= 0.4


def test_a_wait_ends_with_the_answer() -> None:
    answers = iter([None, 0, "here"])
    assert patience.wait_for("it", lambda: next(answers), 60, 0) == "here"


def test_time_outs_of_subprocess_grow_with_the_load(monkeypatch: pytest.MonkeyPatch, load: Path) -> None:
    """subprocess has no option for its clock; this fails if Python renames the clock."""
    assert getattr(subprocess, "_time", None) is patience.seconds, "patience is not loaded as a plugin"
    monkeypatch.setattr(subprocess, "_time", patience.QuietClock(load))
    for capture in (True, False):
        done = subprocess.run(["sleep", "0.3"], timeout=0.15, capture_output=capture, check=False)
        assert done.returncode == 0
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["sleep", "60"], timeout=0.1, capture_output=capture, check=False)
