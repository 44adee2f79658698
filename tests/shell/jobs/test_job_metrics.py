"""A job's metrics in result.json: the program that is shipped with the job, called as the job calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stubbed_jobs import change, finished, prepare

from gpucluster_job import ending

PACKAGE = Path(__file__).parents[3] / "gpucluster_job"
ACCURACY = {"accuracy": r"accuracy[ :]+(\S+)"}


def read(tmp_path: Path, log: str | bytes, expressions: dict[str, str] | None = None, skipped: int = 0) -> dict:
    (tmp_path / "metrics.json").write_text(json.dumps(expressions or ACCURACY))
    (tmp_path / "log.txt").write_bytes(log if isinstance(log, bytes) else log.encode())
    argv = [sys.executable, "-IS", PACKAGE, "metrics", tmp_path / "metrics.json", tmp_path / "log.txt", str(skipped)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    ("log", "values"),
    [
        ("[0 train-1] accuracy: 0.5\n[0 train-1] accuracy: 0.75\n", [0.5, 0.75]),
        ("[0 train-1] accuracy 1,234.5", [1234.5]),
        ("[0 train-1] accuracy: 1,234,567\n[0 train-1] accuracy: -12,345.5e1\n", [1234567.0, -123455.0]),
        # a comma that separates no thousands: a decimal comma, which is no number here
        ("[0 train-1] accuracy: 97,3\n[0 train-1] accuracy: 0,973\n[0 train-1] accuracy: 12,34,567\n", []),
        ("[0 train-1] accuracy: 1,2345\n[0 train-1] accuracy: 1,234,5\n[0 train-1] accuracy: 1234,567\n", []),
        ("[0 train-1] accuracy: 0.5, loss: 1\n[0 train-1] accuracy: 1,234, loss: 1\n", [0.5, 1234.0]),
        ("[0 train-1] accuracy: 1_2\n", []),  # a number only in Python's source
        ("[0 train-1] accuracy: \x1b[32m0.5\x1b[0m\n[0 train-1] \x1b[1;38;5;9maccuracy\x1b[m: 1\n", [0.5, 1.0]),
        ("[0 train-1] accuracy: \x1b]8;;http://x\x1b\\0.5\x1b]8;;\x1b\\\n", [0.5]),  # a link of rich
        ("[0 train-1] accuracy: none\n[0 train-1] accuracy: 1e-3\n", [0.001]),
        ("[1 train-1] accuracy: 2\n[0 train-1] accuracy: 1\n[1 train-1] accuracy: 2\n", [1.0]),
        ("[3 train-2] accuracy: 3\n[2 train-2] accuracy: 2\n", [2.0]),
        ("[0 train-1] accuracy: 3\n[chief train-1] accuracy: 2\n[server-0 ps-1] accuracy: 1\n", [2.0]),
        ("[launcher] accuracy: 1\nerror: accuracy: 2\n", []),
        (b"[0 train-1] \xff accuracy: 4\n", [4.0]),
        ("", []),
    ],
)
def test_values_are_those_of_the_lowest_rank_that_prints_them(tmp_path, log, values):
    assert read(tmp_path, log)["accuracy"]["values"] == values


def test_a_metric_has_its_count_last_least_greatest_and_median_value(tmp_path):
    log = "".join(f"[0 train-1] accuracy: {value}\n" for value in (3, 1, 2, "nan", "inf"))
    assert read(tmp_path, log)["accuracy"] == {
        "count": 5, "not_finite": 2, "last": None, "min": 1.0, "max": 3.0, "median": 2.0,
        "values": [3.0, 1.0, 2.0, None, None],
    }  # fmt: skip


def test_only_the_last_of_many_values_are_kept(tmp_path):
    log = "".join(f"[0 train-1] accuracy: {value}\n" for value in range(3000))
    found = read(tmp_path, log)["accuracy"]
    assert (found["count"], found["min"], found["last"], len(found["values"])) == (3000, 0, 2999, 1000)
    assert found["values"][0] == 2000


def test_an_earlier_run_of_the_job_does_not_count(tmp_path):
    earlier = "[0 train-1] accuracy: 1 ü\n"
    log = earlier + "[0 train-1] accuracy: 2\n"
    assert read(tmp_path, log, skipped=len(earlier.encode()))["accuracy"]["values"] == [2.0]


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_the_result_of_a_job_has_its_metrics(tmp_path, launcher):
    program = 'echo "images/s: $((RANK + 100))"; echo \'{"accuracy": 0.97}\'; exit $((RANK == 3 ? 7 : 0))'
    expressions = {"throughput": r"images/s: (\d+)", "accuracy": r'"accuracy": ([\d.]+)', "none": "(never)"}
    job = prepare(tmp_path, {}, {"launcher": launcher, "command": ("bash", "-c", program), "metrics": expressions})
    done = subprocess.run(**job, timeout=60, check=False)
    _, result, _, _ = finished(done.returncode, tmp_path / "job")
    assert result["exit_code"] == 7  # a failed job has metrics, too
    got = {name: found["last"] for name, found in result["metrics"].items()}
    assert got["none"] is None
    assert got["accuracy"] in (0.97, None)  # a rank may be killed before it reports this
    assert set(result["metrics"]["throughput"]["values"]) <= {100.0, 101.0, 102.0, 103.0}


def test_an_expression_that_never_ends_loses_only_the_metrics(tmp_path):
    job = prepare(
        tmp_path, {}, {"launcher": "srun", "command": ("echo", "a" * 60 + "b"), "metrics": {"slow": "(a*)*$(?<=c)"}}
    )
    change(tmp_path, "ending.py", "METRICS_S = 10.0", "METRICS_S = 1.0")
    done = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(done.returncode, tmp_path / "job")
    assert (result["exit_code"], result["metrics"]) == (0, None)
    said = "warning: the metrics could not be read from the log: an expression took more than 1 s"
    assert said in log.splitlines()


def test_a_large_log_has_more_time(tmp_path):
    """3 million lines need more than 10 s."""
    log = tmp_path / "log.txt"
    log.write_bytes(b"x")
    assert ending.metrics_limit_s(log, stopped=False) == pytest.approx(10, abs=0.1)
    os.truncate(log, 200_000_000)
    assert ending.metrics_limit_s(log, stopped=False) > 100
    assert ending.metrics_limit_s(log, stopped=True) == 2  # Slurm kills a stopped job soon
