"""A job's metrics in result.json: the program that is shipped with the job, called as the job calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from stubbed_jobs import change, finished, prepare, wait_for

from gpucluster_job.metrics import process

PACKAGE = Path(__file__).parents[3] / "gpucluster_job"
ACCURACY = {"accuracy": r"accuracy[ :]+(\S+)"}


def started(tmp_path: Path, expressions: dict[str, str], skipped: int = 0, run: int = 0) -> subprocess.Popen:
    (tmp_path / "metrics.json").write_text(json.dumps(expressions))
    (tmp_path / "logged").mkdir(exist_ok=True)
    places = [tmp_path / "metrics.json", tmp_path / "log.txt", str(skipped), tmp_path / "logged"]
    argv = [sys.executable, "-IS", PACKAGE, "metrics", *places, "4", str(run)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen, limit_s: float = 60) -> tuple[dict, list[str]]:
    """The field of result.json, and what the program says in the log."""
    answer, said = process.communicate(f"{limit_s}\n", timeout=limit_s + 60)
    assert process.returncode == 0, said
    return json.loads(answer), said.splitlines()


def written(tmp_path: Path, log: str | bytes) -> None:
    (tmp_path / "log.txt").write_bytes(log if isinstance(log, bytes) else log.encode())


def read(tmp_path: Path, log: str | bytes, expressions: dict[str, str] | None = None, skipped: int = 0) -> dict:
    written(tmp_path, log)
    return ended(started(tmp_path, expressions or ACCURACY, skipped))[0]


def lines(tmp_path: Path) -> list[dict]:
    found = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if key != "time_s"} for line in found]


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


def test_an_expression_that_never_ends_loses_only_its_metric(tmp_path):
    endless, line = {"slow": "(a*)*$(?<=c)"}, "a" * 60 + "b, accuracy: 0.5"
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("echo", line), "metrics": endless | ACCURACY})
    change(tmp_path, "metrics/printed.py", "EXPRESSION_S = 5.0", "EXPRESSION_S = 1.0")
    done = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(done.returncode, tmp_path / "job")
    assert (result["exit_code"], list(result["metrics"])) == (0, ["accuracy"])
    assert result["metrics"]["accuracy"]["last"] == 0.5
    said = [line for line in log.splitlines() if line.startswith("warning: metrics: slow is lost: its expression took")]
    assert len(said) == 1 and said[0].endswith("at most 1 s are allowed; simplify its repetitions, such as (a*)*")


def test_a_log_that_cannot_be_read_in_time_gives_no_part_of_it(tmp_path):
    """Slurm kills a stopped job soon."""
    written(tmp_path, "[0 train-1] accuracy: 0.5\n[0 train-1] " + "a" * 60 + "b\n[0 train-1] accuracy: 0.7\n")
    log_line(tmp_path, 0, {"loss": 1.0})
    began = time.monotonic()
    found, said = ended(started(tmp_path, ACCURACY | {"slow": "(a*)*$(?<=c)"}), limit_s=0.5)
    assert time.monotonic() - began < 30
    assert list(found) == ["loss"]
    assert said[0].startswith("warning: metrics: the log could not be read to its end in 0 s: the expression of slow")


def test_a_large_log_has_more_time(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(b"x")
    settings = SimpleNamespace(log=log)
    assert process.limit_of(settings, stopped=False) == pytest.approx(10, abs=0.1)
    os.truncate(log, 200_000_000)
    assert process.limit_of(settings, stopped=False) > 100
    assert process.limit_of(settings, stopped=True) == 2
    log.unlink()
    assert process.limit_of(settings, stopped=False) == 10


def test_metrics_are_lines_while_the_job_runs(tmp_path):
    expressions = {"loss": r"loss=(\S+)", "step": r"step (\d+)", "accuracy": r"accuracy (\S+) at (?P<step>\d+)"}
    written(tmp_path, "")
    running = started(tmp_path, expressions)
    with (tmp_path / "log.txt").open("a") as log:
        log.write("[0 train-1] step 5 loss=2.5\n[0 train-1] loss=nan\n[0 train-1] accuracy 0.5 at 7\n[0 train-1] loss")
        log.flush()
        wait_for(lambda: (tmp_path / "metrics.jsonl").exists())
        log.write("=0.5\n")
    found, _ = ended(running)
    one = {"run": 0, "rank": 0}
    assert lines(tmp_path) == [
        one | {"step": 5, "values": {"loss": 2.5, "step": 5.0}},
        one | {"step": 5, "values": {"loss": None}},
        one | {"step": 7, "values": {"accuracy": 0.5}},
        one | {"step": 5, "values": {"loss": 0.5}},
    ]
    assert found["loss"]["values"] == [2.5, None, 0.5]


def test_values_that_the_program_logs_count_before_those_that_it_prints(tmp_path):
    written(tmp_path, "[0 train-1] accuracy: 0.1\n[0 train-1] accuracy: 0.2\n")
    for rank, loss in ((2, 3.0), (1, 2.0), (1, float("nan"))):
        log_line(tmp_path, rank, {"loss": loss if loss == loss else None, "accuracy": 0.9}, step=4)
    (tmp_path / "logged" / "3.jsonl").write_text(
        '{"time_s": "x", "values": {}}\n[]\n\n{"time_s": 1e400}\nno JSON\n{"ti'
    )
    os.mkfifo(tmp_path / "logged" / "0.jsonl")  # nobody writes into it
    found, _ = ended(started(tmp_path, ACCURACY))
    assert found["loss"]["values"] == [2.0, None] and found["accuracy"]["values"] == [0.9, 0.9]
    assert lines(tmp_path)[-1] == {
        "run": 0, "rank": 1, "step": 4, "values": {"loss": None, "accuracy": 0.9}, "logged": True
    }  # fmt: skip


def log_line(tmp_path: Path, rank: int, values: dict, step: int | None = None) -> None:
    """As gpucluster_train/log.py writes it."""
    (tmp_path / "logged").mkdir(exist_ok=True)
    with (tmp_path / "logged" / f"{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"time_s": time.time(), "step": step, "values": values}) + "\n")


def test_the_log_says_once_that_a_text_is_no_number(tmp_path):
    written(tmp_path, "[0 train-1] accuracy: 97,3\n[0 train-1] accuracy: 98,1\n[0 train-1] accuracy: \x07\n")
    _, said = ended(started(tmp_path, ACCURACY))
    what = "'97,3' is not a number and is skipped, as further ones will be; print a decimal point"
    assert said == [f"warning: metrics: accuracy: {what}"]


def test_a_number_without_its_exponent_is_none(tmp_path):
    """As of huggingface/notebooks#61 and kubeflow/katib#1702, whose learning rates and scores were so wrong."""
    written(tmp_path, "[0 train-1] loss: 0.5 e-mail\n[0 train-1] loss: 4.5e-05,\n[0 train-1] loss: 2e5_is_a_name\n")
    found, said = ended(started(tmp_path, {"loss": r"loss: ([0-9.]+)", "all": r"loss: (\S+)"}))
    assert found["loss"]["values"] == [0.5, 2.0] and found["all"]["values"] == [0.5, 4.5e-05]
    what = (
        r"'4.5e-05' is captured without its exponent and is skipped, as further ones will be; (\S+) captures all of it"
    )
    assert said[0] == f"warning: metrics: loss: {what}"


def test_a_requeued_job_appends_to_the_lines_of_its_earlier_run(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"time_s": 1, "va')  # it was killed while it wrote
    written(tmp_path, "[0 train-1] accuracy: 0.5\n")
    ended(started(tmp_path, ACCURACY, run=1))
    first, second = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert (first, json.loads(second)["run"]) == ('{"time_s": 1, "va', 1)


def test_a_job_that_prints_for_weeks_has_fewer_and_fewer_lines(tmp_path):
    count = 100_000
    log = "".join(f"[0 train-1] accuracy: {value}\n" for value in range(count))
    found = read(tmp_path, log)["accuracy"]
    assert (found["count"], found["last"]) == (count, count - 1)
    assert found["median"] == pytest.approx((count - 1) / 2, rel=1e-3), "of an even part"
    kept = [line["values"]["accuracy"] for line in lines(tmp_path)]
    assert kept[:10_001] == list(range(10_000)) + [10_000] and kept[10_001] == 10_002
    assert 30_000 < len(kept) < 40_000


def test_a_value_behind_a_megabyte_of_its_line_is_found(tmp_path):
    for before in (2**16 - 10, 2**16 - 2, 10**6):
        (tmp_path / "metrics.jsonl").unlink(missing_ok=True)
        assert read(tmp_path, f"[0 train-1] {'x' * before} accuracy: 0.123456 x\n")["accuracy"]["values"] == [0.123456]


def test_names_that_would_be_none_in_job_yaml_are_left_out(tmp_path):
    written(tmp_path, "")
    log_line(tmp_path, 0, {"<b>": 1.0, "_private": 1.0, "good/name": 1.0} | {f"n{each}": 1.0 for each in range(1100)})
    found, said = ended(started(tmp_path, ACCURACY))
    assert len(found) == 1001 and "good/name" in found  # with that of the expression
    assert said == [
        "warning: metrics: '<b>' is no name of a metric: up to 64 letters, digits and _ . : / -",
        "warning: metrics: n999 is left out: a job has at most 1000 metrics",
    ]


def test_an_expression_for_another_python_loses_only_its_metric(tmp_path):
    written(tmp_path, "[0 train-1] accuracy: 0.5\n")
    found, said = ended(started(tmp_path, {"newer": "(?~x)"} | ACCURACY))
    assert list(found) == ["accuracy"]
    assert len(said) == 1 and said[0].startswith("warning: metrics: newer is lost: this node's Python 3.")


def test_a_program_without_the_job_ends(tmp_path):
    """The job's own process was killed."""
    written(tmp_path, "")
    orphan = started(tmp_path, ACCURACY)
    orphan.stdin.close()
    assert orphan.wait(30) == 0
    orphan.stdout.close(), orphan.stderr.close()


def test_a_job_without_metrics_has_none(tmp_path):
    done = subprocess.run(**prepare(tmp_path, {}, {"launcher": "srun", "command": ("true",)}), timeout=60, check=False)
    _, result, _, folder = finished(done.returncode, tmp_path / "job")
    assert "metrics" not in result and not (folder / "metrics.jsonl").exists()


def test_the_sampler_finds_the_newest_finite_values(tmp_path):
    """And the program of a rank, which finds gpucluster_train, logs under every launcher."""
    program = "from gpucluster_train import log; import os; r = int(os.environ['RANK'])\n"
    program += "log(step=3, loss=0.5 + r); log(**{f'n{each}': each for each in range(150)}); log(bad=float('nan'))"
    job = prepare(tmp_path, {}, {"launcher": "torchrun", "command": ("python3", "-c", program)})
    place = tmp_path / "77"
    change(tmp_path, "metrics/store.py", "/run/gpucluster/metrics", str(tmp_path))
    place.mkdir()
    done = subprocess.run(**job, timeout=60, check=False)
    _, result, log, folder = finished(done.returncode, tmp_path / "job")
    assert done.returncode == 0, log
    newest = json.loads((place / "last.json").read_text())
    assert newest["loss"] == 0.5 and len(newest) == 100 and not list(place.glob("*.new"))
    assert result["metrics"]["loss"]["values"] == [0.5] and result["metrics"]["bad"]["not_finite"] == 1
    assert {path.name for path in folder.glob("metrics/77.0/*")} == {f"{rank}.jsonl" for rank in range(4)}
