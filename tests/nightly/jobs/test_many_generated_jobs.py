"""Ten thousand random jobs, new ones in each run. `SEED=N` repeats the run that printed it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.shell.jobs import generated_jobs
from tests.shell.jobs.generated_jobs import BATCH, batches, jobs

SUBJECTS = [
    "gpucluster/job/*.py",
    "gpucluster/launchers/*.py",
    "templates/job/*",
    "gpucluster_job/exports.py",
    "gpucluster_job/launch.py",
    "gpucluster_job/roles/steps.py",
    "tests/shell/jobs/generated_jobs.py",
]
JOBS = 10_000


@pytest.fixture
def places() -> Iterator[list[Path]]:
    with generated_jobs.places() as found:
        yield found


def test_words_and_variables_reach_the_launcher(places: list[Path]) -> None:
    chosen = int(os.environ.get("SEED", secrets.randbits(32)))
    print(f"SEED={chosen}")  # pytest shows it where the test fails

    @seed(chosen)
    @settings(
        max_examples=JOBS // BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(batch=batches)
    def each(batch: list[dict]) -> None:
        generated_jobs.check_all(places, batch)

    each()


def test_shellcheck_finds_nothing_in_two_hundred_scripts(tmp_path: Path) -> None:
    generated_jobs.lint(tmp_path, generated_jobs.sample(200, jobs))
