"""Random jobs: do their arguments and variables reach the program that starts the ranks?

This tests the same two hundred each time; tests/nightly/jobs/test_many_generated_jobs.py tests new ones. A few run up
to the ranks' program, and shellcheck reads forty.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import generated_jobs
import pytest
from generated_jobs import BATCH, LAYOUT, batches, jobs
from hypothesis import HealthCheck, Phase, given, settings
from stubbed_jobs import finished, prepare

from gpucluster.errors import JobSpecError
from gpucluster.job import load
from gpucluster.job.spec import LONGEST_WORD

ROOT = Path(__file__).resolve().parents[3]
JOBS = 200


@pytest.fixture(scope="module")
def places() -> Iterator[list[Path]]:
    with generated_jobs.places() as found:
        yield found


@settings(
    max_examples=JOBS // BATCH,
    deadline=None,
    derandomize=True,  # the same examples everywhere
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(batch=batches)
def test_words_and_variables_reach_the_launcher(places: list[Path], batch: list[dict]) -> None:
    generated_jobs.check_all(places, batch)


# Arguments and environment of one rank, as PROBE writes those of what starts the ranks.
RANK = '#!/bin/sh\n{ printf \'%s\\0\' $# "$@"; exec env --null; } >"$OUT/rank-$RANK"\n'


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "srun"])
def test_words_and_variables_reach_the_program_of_each_rank(tmp_path: Path, launcher: str) -> None:
    for number, flags in enumerate(generated_jobs.sample(6, jobs)):
        place, env = tmp_path / str(number), flags["env"]
        place.mkdir()
        probe = place / "the program"
        probe.write_text(RANK)
        probe.chmod(0o755)
        keys = {"launcher": launcher, "command": (str(probe), *flags["command"]), "env": env}
        done = subprocess.run(**prepare(place, {}, keys), timeout=60, check=False)
        _, result, log, _ = finished(done.returncode, place / "job")
        assert result["exit_code"] == 0, log
        for rank in range(4):
            count, *rest = (place / f"rank-{rank}").read_bytes().decode().split("\0")
            assert rest[: int(count)] == list(flags["command"])
            got = dict(pair.split("=", 1) for pair in rest[int(count) : -1])
            assert {name: got.get(name) for name in env} == env


def test_forty_generated_scripts_pass_shellcheck(tmp_path: Path) -> None:
    generated_jobs.lint(tmp_path, generated_jobs.sample(40, jobs))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"env": {"A": "x" * (LONGEST_WORD + 1)}}, "must be at most 131000 bytes (a limit of Linux), got 131001"),
        ({"command": ("é" * LONGEST_WORD,)}, "must be at most 131000 bytes"),
        ({"command": ("\udcff",)}, "must be valid Unicode text, got '\\udcff' in it"),
        ({"env": {"UID": "0"}}, "UID cannot be set: bash sets it itself"),
        ({"env": {"BASH_ENV": "x"}}, "BASH_ENV cannot be set"),
        ({"env": {"RANK": "0"}}, "RANK cannot be set: the job sets it for each rank"),
        ({"env": {"GPUCLUSTER_JOB_DIR": "/"}}, "GPUCLUSTER_JOB_DIR cannot be set: the job sets it"),
        ({"secrets": ("IFS",)}, "IFS cannot be set"),
    ],
)
def test_values_that_could_not_reach_a_program_are_refused(flags: dict, said: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        load(LAYOUT, flags={"command": ("x",)} | flags)
    assert said in str(caught.value)
