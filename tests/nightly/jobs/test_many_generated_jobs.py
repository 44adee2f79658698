"""Ten thousand random jobs, new ones in each run. `SEED=N` repeats the run that printed it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.new_each_run import new_each_run
from tests.shell.jobs import generated_jobs
from tests.shell.jobs.generated_jobs import BATCH, batches, jobs

SUBJECTS = [
    "gpucluster/job/*.py",
    "gpucluster/job_keys.py",
    "gpucluster/launchers/*.py",
    "templates/job/*",
    "gpucluster_job/exports.py",
    "gpucluster_job/launch.py",
    "gpucluster_job/roles/steps.py",
    "tests/shell/jobs/generated_jobs.py",
]
COVERED_BY = "200 jobs in test_generated_jobs.py, five pairs in test_jobs_together.py"
JOBS = 10_000


@pytest.fixture
def places() -> Iterator[list[Path]]:
    with generated_jobs.places() as found:
        yield found


@new_each_run(JOBS // BATCH, batch=batches)
def test_words_and_variables_reach_the_launcher(places: list[Path], batch: list[dict]) -> None:
    generated_jobs.check_all(places, batch)


def test_shellcheck_finds_nothing_in_two_hundred_scripts(tmp_path: Path) -> None:
    generated_jobs.lint(tmp_path, generated_jobs.sample(200, jobs))
