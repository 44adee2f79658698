"""Two jobs on the same nodes do not affect each other. A killed rank ends its job, which leaves nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bed import Bed
from killed_ranks import lose_rank_1

from gpucluster.launchers import LAUNCHERS

PROGRAMS = Path(__file__).parent / "programs"
PAIRS = [*[("srun", "srun")] * 2, ("torchrun", "torchrun"), ("horovodrun", "horovodrun"), ("torchrun", "horovodrun")]
SHARED = ("--nodes", "2", "--gpus-per-node", "1", "--ntasks-per-node", "2", "--no-exclusive")
FIRST_TWO = "--sbatch-args=--nodelist=train-1,train-2"
# For each pair A,B: copies the folders of two jobs, submits both copies at once, waits for both, and says of each:
# ROUND EXIT-CODE LAST-LINE.
ROUNDS = r"""
cd ~/jobs
submit() {
  copy=together-$number-$2
  rm -rf "$copy"; cp -r "$1" "$copy"; rm -f "$copy"/meet "$copy/result.json"; : >"$copy/log.txt"
  sed -i "s#/jobs/$1#/jobs/$copy#g" "$copy/job.sbatch"
  PAIR=$PWD/pair-$number sbatch "$copy/job.sbatch" >/dev/null
}
tell() {
  for ((tries = 0; tries < 5000; tries++)); do [ ! -e "$1/result.json" ] || break; sleep 0.2; done
  code=$(sed -nE 's/.*"exit_code": ([0-9]+).*/\1/p' "$1/result.json")
  echo "$number $code $(grep -v 'exited with' "$1/log.txt" | grep '^\[0 ' | tail -n 1)"
}
rm -rf pair-* together-*
number=0
for pair; do
  ((++number))
  submit "${pair%,*}" a; submit "${pair#*,}" b
  tell "together-$number-a"; tell "together-$number-b"
done
rm -rf pair-* together-*
"""


@pytest.fixture(scope="module")
def folders(cluster: Bed) -> dict[str, str]:
    """Launcher -> the folder, on the cluster, of a job that ran alone; afterwards the nodes are up."""
    submitted = {}
    for launcher in dict.fromkeys(name for pair in PAIRS for name in pair):
        job = cluster.submit(
            *SHARED, FIRST_TWO, "--launcher", launcher, "--workdir", str(PROGRAMS), "--follow",
            "--", "python", "exchange.py", timeout_s=400,
        )  # fmt: skip
        assert job.exit_code == 0, job.told + "\n".join(job.log)
        submitted[launcher] = Path(job.last["folder"]).name
    return submitted


def test_two_jobs_run_at_once_on_the_same_nodes(cluster: Bed, folders: dict[str, str]) -> None:
    run_in_pairs(cluster, folders, PAIRS)


def run_in_pairs(cluster: Bed, folders: dict[str, str], launchers: list[tuple[str, str]]) -> None:
    """tests/nightly runs more of these."""
    pairs = [f"{folders[one]},{folders[other]}" for one, other in launchers]
    output = cluster.ssh("bash", "-c", ROUNDS, "bash", *pairs, timeout_s=540)
    # torchrun's rendezvous numbers the nodes by their addresses, so rank 0 need not be on the first one
    lines = [re.sub(r"\[0 train-[12]\]", "[0]", line) for line in output.splitlines()]
    assert lines == [f"{number} 0 [0] ranks [0, 1, 2, 3]" for number in range(1, len(pairs) + 1) for _ in range(2)], (
        output
    )


HERE = {"torch", "horovod"}
"""Tests launchers of the session's frameworks. Tests of other clusters cover the other launchers."""


@pytest.mark.parametrize(
    "launcher", [name for name, each in LAUNCHERS.items() if not each.frameworks or HERE & set(each.frameworks)]
)
def test_a_killed_rank_ends_its_job_and_is_named(cluster: Bed, folders: dict[str, str], launcher: str) -> None:
    lose_rank_1(cluster, 4, "--nodes", "2", "--gpus-per-node", "2", "--launcher", launcher)


def test_bench_runs_each_size_and_knows_that_the_nodes_are_one_machine(cluster: Bed, folders: dict[str, str]) -> None:
    program = (
        'if [ "$RANK" = 0 ]; then for i in 1 2 3; do echo "images/s: $((100 * WORLD_SIZE + i)) seed {seed}"; done; fi'
    )
    done = cluster.gpucluster(
        "bench", "--nodes", "1,2", "--launchers", "srun", "--gpus-per-node", "2", "--repeats", "1", "--seed", "7",
        "--metrics", r"throughput=images/s: (\d+)", "--metrics", r"seed=seed (\d+)", "--json",
        "--", "bash", "-c", program, timeout_s=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["throughput"]["values"] for each in found["settings"]] == [[202], [402]]
    assert [each["metrics"]["seed"]["mean"] for each in found["settings"]] == [7, 7]
    assert found["machines"] == 1
    assert any("all 2 nodes share one machine" in each for each in found["doubts"])
