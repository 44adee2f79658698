"""Locks of the jobs' environments: what is asked for is in them, and what they hold suits what lies below.

That they are complete is tests/nightly/test_environment_locks_resolve.py's: it takes a package index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from gpucluster.hardware import software

LOCKS = sorted((Path(__file__).resolve().parents[3] / "bootstrap/environments").glob("*.txt"))

DRIVERS = {11: Version("450.80"), 12: Version("525.60"), 13: Version("580.65")}
"""CUDA's major version -> the oldest driver that runs it (minor version compatibility within a major one).
https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html, tables 2 and 3."""


def pins(lock: Path) -> dict[str, Version]:
    return {name: Version(text) for name, text in re.findall(r"^([a-z0-9-]+)==(\S+)$", lock.read_text(), re.MULTILINE)}


def asked(lock: Path) -> list[Requirement]:
    lines = re.findall(r"^# asked: (.*)$", lock.read_text(), re.MULTILINE)
    return [Requirement(word) for line in lines for word in line.split()]


def cuda(lock: Path) -> int | None:
    """Major version of the CUDA whose libraries come with it."""
    return next((pin.major for name, pin in pins(lock).items() if name.startswith("nvidia-cuda-runtime")), None)


def test_every_environment_has_a_lock() -> None:
    assert sorted(lock.stem for lock in LOCKS) == sorted(each.name for each in software.ENVIRONMENTS)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_requested_packages_are_locked(lock: Path) -> None:
    locked, wanted = pins(lock), asked(lock)
    assert wanted
    assert [str(each) for each in wanted if each.name not in locked or locked[each.name] not in each.specifier] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_contains_only_sorted_unique_pins(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if not line.startswith(("#", "--"))]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    assert lines == sorted(lines) and len(pins(lock)) == len(lines)


@pytest.mark.parametrize("environment", software.ENVIRONMENTS, ids=lambda each: each.name)
def test_an_environment_for_gpus_brings_its_cuda_and_the_driver_runs_it(environment: software.Environment) -> None:
    lock = next(lock for lock in LOCKS if lock.stem == environment.name)
    rows = [row for row in software.MACHINES if set(row.families) & set(environment.families)]
    major = cuda(lock)
    assert (major is not None) == bool(rows)
    for row in rows:
        assert Version(row.driver.least) >= DRIVERS[major or 0], row.families


def test_horovod_of_torch_finds_a_compiler_of_its_cuda() -> None:
    """On every machine that it is for, the toolkit is of the major version that torch was built for."""
    for name in ("horovod", "horovod-volta"):
        (lock,) = (lock for lock in LOCKS if lock.stem == name)
        families = next(each.families for each in software.ENVIRONMENTS if each.name == name)
        for row in (row for row in software.MACHINES if set(row.families) & set(families)):
            assert {Version(row.cuda.least).major, Version(row.cuda.installed).major} == {cuda(lock)}
