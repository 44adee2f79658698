"""How long a job's ranks waited for data: counted by the program's Feed, summed up in result.json and for `why`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, time
from gpucluster_train.feed import Feed
rank = int(os.environ["RANK"])
def batches():
    for _ in range(20):
        time.sleep(0.03 if rank == 3 else 0)
        yield [0] * 8
feed = Feed(batches())
for batch in feed:
    time.sleep(0.01)
print(feed.report())
sys.exit(int(sys.argv[1]) if rank == 3 else 0)
"""


@pytest.mark.parametrize(("launcher", "code"), [("torchrun", 0), ("horovodrun", 0), ("srun", 3)])
def test_the_result_says_how_long_the_ranks_waited_for_data(run_job, launcher, code):
    ended, result, log, folder = run_job(launcher=launcher, command=("python", "-c", PROGRAM, str(code)))
    assert bool(ended) == bool(code), log
    wait = result["data_wait"]
    assert wait["most_rank"] == 3 and wait["most_node"] == "train-2"
    assert wait["percent"] < wait["most_percent"] and 50 < wait["most_percent"] < 90, wait
    assert f"data {wait['most_percent']:.0f} % of " in log
    argv = [sys.executable, "-IS", folder / "lib" / "gpucluster_job", "feeds", folder]
    assert json.loads(subprocess.run(argv, capture_output=True, check=True).stdout) == {"data_wait": wait}


def test_a_program_without_a_feed_has_no_such_field_and_a_damaged_file_counts_for_nothing(run_job):
    damage = "import os; open(os.environ['GPUCLUSTER_FEEDS'] + '/0.json', 'w').write('{}')"
    code, result, log, folder = run_job(launcher="torchrun", command=("python", "-c", damage))
    assert code == 0, log
    assert "data_wait" not in result and "feed" not in result
    argv = [sys.executable, "-IS", folder / "lib" / "gpucluster_job", "feeds", folder]
    assert subprocess.run(argv, capture_output=True, check=True, text=True).stdout == "{}\n"


TRAINING = """
import json, os, time
from gpucluster_train.feed import Feed

class Loader:
    def __iter__(self):
        for _ in range(50):
            time.sleep(0.004)
            yield {"pictures": Tensor(8), "labels": Tensor(8)}

class Tensor:
    def __init__(self, length):
        self.shape = (length, 3)

feed = Feed(Loader())
for epoch in range(90):
    for batch in feed:
        time.sleep(0.002)
print("trained for 90 epochs")
"""


def test_a_run_of_bench_feed_measures_and_ends_the_program(run_job):
    command = ("env", "GPUCLUSTER_FEED=loader", "python", "-c", TRAINING)
    code, result, log, _ = run_job(launcher="torchrun", command=command)
    assert code == 0 and "90 epochs" not in log, log
    feed = result["feed"]
    assert (feed["mode"], feed["unit"], feed["ranks"]) == ("loader", "samples", 4)
    fastest = 4 * 8 / 0.004
    assert 0.1 * fastest < feed["per_s"] < fastest, feed
    assert "cold_per_s" not in feed  # nobody knows its files
