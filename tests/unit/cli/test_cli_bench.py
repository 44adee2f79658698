"""`gpucluster bench` as it is typed, against a head node that is this machine, with stand-ins for sbatch and squeue."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.cli import main
from gpucluster.cli.frame import connection
from gpucluster.following import jobs
from gpucluster.head.remote import Completed
from gpucluster.measure import runs
from gpucluster.submission import inputs, submit
from tests.in_process import InProcessRemote

CLUSTER = """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
software: {frameworks: [torch, horovod]}
"""

# Runs nothing, but writes the result of a job whose throughput is 100 per node, less 10 % beyond the first.
SBATCH = r"""#!/usr/bin/env python3
import json, os, pathlib, re, sys
folder = pathlib.Path(sys.argv[-1]).parent
count = folder.parent / "count"
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
script = (folder / "job.sbatch").read_text()
nodes = int(re.search(r"NUM_NODES=(\d+)", script)[1])
speed = 100 * nodes * (1 if nodes == 1 else 0.9) + number / 100
failed = "--break" in script
metrics = {name: {"count": 3, "median": speed, "last": speed} for name in ("throughput", "loss")}
result = {"exit_code": int(failed), "started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:01:00Z",
          "node_list": ["train-%d" % each for each in range(1, nodes + 1)], "failed_rank": 1 if failed else None,
          "failed_node": "train-1" if failed else None, "reason": "boom" if failed else None, "metrics": metrics}
part = re.search(r"GPUCLUSTER_FEED=(\w+)", script)
if part:
    speeds = {"resident": 900, "loader": 300, "real": 290}
    result["feed"] = {"mode": part[1], "unit": "samples", "per_s": speeds[part[1]]}
(folder / "result.json").write_text(json.dumps(result))
print(number)
"""


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """bench(*words) -> (exit code, stdout, stderr); the jobs' folders lie in tmp_path/jobs."""
    stubs = {
        "sbatch": SBATCH,
        "squeue": '#!/bin/sh\necho "slurm_load_jobs error: Invalid job id specified" >&2; exit 1\n',
        "ssh": "#!/bin/sh\nexec cat /proc/stat\n",
        "scancel": '#!/bin/sh\necho "$@" >"$0.called"\n',
    }
    for name, text in stubs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "cluster.yaml").write_text(CLUSTER)
    (work / "train.py").write_text("print()\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(submit, "ENVIRONMENTS", str(tmp_path / "envs"), raising=False)
    (tmp_path / "envs" / ".wanted" / "torch").mkdir(parents=True)
    (tmp_path / "envs" / ".wanted" / "torch" / "complete").touch()
    monkeypatch.setattr(jobs, "POLL_S", 0.0)
    monkeypatch.setattr(connection, "head", lambda *_: contextlib.nullcontext(InProcessRemote()))

    def call(*words):
        code = main(["bench", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def scripts(tmp_path: Path) -> list[str]:
    folders = sorted((tmp_path / "jobs" / "by-id").iterdir(), key=lambda path: int(path.name))
    return [(folder / "job.sbatch").read_text() for folder in folders]


METRICS = ("--metrics", r"throughput=images/s: (\S+)", "--metrics", r"loss=loss (\S+)")


def test_every_setting_is_run_and_compared(bench, tmp_path):
    words = ["--nodes", "2,1", "--launchers", "torchrun,srun", "--variant", "amp=on", "--repeats", "3", "--seed", "7"]
    code, out, err = bench(*words, *METRICS, "--", "python", "train.py", "--seed", "{seed}")
    assert code == 0, err
    ran = scripts(tmp_path)
    assert len(ran) == 2 * 2 * 2 * 3
    assert all("--seed 7" in text and "export GPUCLUSTER_SEED=7\n" in text for text in ran)
    assert sum("--seed 7 --amp on\n" in text for text in ran) == 12
    assert all("#SBATCH --no-requeue" in text for text in ran)
    summary = json.loads(out.splitlines()[-1])
    ways = {(each["launcher"], each["variant"], each["nodes"]) for each in summary["settings"]}
    assert ways == {(launcher, kind, n) for launcher in ("torchrun", "srun") for kind in ("", "amp=on") for n in (1, 2)}
    assert [each["efficiency"] for each in summary["settings"] if each["nodes"] == 2] == [pytest.approx(0.9, 0.01)] * 4
    assert summary["machines"] == 1
    assert "launcher  variant  nodes" in out
    assert "note: all 2 nodes share one machine" in out
    assert "24/24 srun amp=on on 2 nodes: job 24" in err


@pytest.mark.parametrize(
    ("asked", "machines"),
    [
        ([(9, 100), (9, 120), (9, 150), (9, 151)], 1),  # the third node, and the first once more
        ([(9, 100), (9, 90), (9, 150), (9, 110)], 3),
        ([(9, 100), (9, 105), (9, 150), (9, 110)], 2),
        ([(9, 100), (8, 105), (8, 105), (9, 110)], 3),
        ([(9, 100), None, (9, 105), (9, 110)], None),
    ],
)
def test_nodes_of_one_kernel_are_one_machine(asked, machines):
    class Remote:
        def __init__(self):
            self.answers = iter(asked)

        def run(self, argv):
            answer = next(self.answers)
            text = f"cpu 1 2\nctxt {answer[1]}\nbtime {answer[0]}\n" if answer else ""
            return Completed(0 if answer else 255, text, "")

    assert runs.machines(Remote(), ["a", "b", "c"]) == machines


def test_json_alone_and_a_picture(bench, tmp_path):
    picture = tmp_path / "bench.svg"
    code, out, err = bench("--json", "--plot", str(picture), "--repeats", "1", *METRICS, "--", "python", "train.py")
    assert (code, len(out.splitlines())) == (0, 1), err
    assert json.loads(out)["doubts"]
    assert "throughput" in picture.read_text()


def test_a_job_file_says_what_is_run(bench, tmp_path):
    job = "name: digits\ncommand: [python, train.py]\nnodes: 4\nmetrics: {throughput: '(.*) images/s'}\n"
    (tmp_path / "work" / "job.yaml").write_text(job)
    assert bench("job.yaml", "--nodes", "1", "--repeats", "1")[0] == 0
    (text,) = scripts(tmp_path)
    assert "#SBATCH --job-name=digits-torchrun-1\n" in text
    assert "#SBATCH --nodes=1\n" in text


def test_a_failed_run_is_reported_and_the_others_continue(bench):
    words = ["--nodes", "1", "--repeats", "2", "--variant", "break=", *METRICS]
    code, out, _ = bench(*words, "--", "python", "train.py")
    assert code == 4
    assert "note: torchrun break= on 1 node: 2 of 2 runs failed and are ignored; job 2 failed: rank 1 on train-1" in out
    assert len(json.loads(out.splitlines()[-1])["settings"]) == 2


def test_dry_run_lists_the_runs(bench, tmp_path):
    code, out, _ = bench("--nodes", "1,2", "--repeats", "2", "--dry-run", "--", "python", "train.py")
    assert (code, out) == (0, "torchrun on 1 node\ntorchrun on 2 nodes\n" * 2)
    assert not (tmp_path / "jobs").exists()


def test_feed_measures_the_parts_of_the_training_once_on_one_node(bench, tmp_path):
    code, out, err = bench("--feed", "--", "python", "train.py")
    assert code == 0, err
    ran = scripts(tmp_path)
    parts = ("resident", "loader", "real")
    assert [f"export GPUCLUSTER_FEED={part}\n" in text for part, text in zip(parts, ran, strict=True)] == [True] * 3
    assert all("#SBATCH --nodes=1\n" in text and "#SBATCH --time=0:30:00\n" in text for text in ran)
    assert "3/3 torchrun on 1 node, both: job 3" in err
    speeds = "training alone 900 | loader alone 300 | both 290 samples/s"
    assert out.startswith(f"torchrun on 1 node: {speeds}: the loader limits; decode on the GPUs")
    (found,) = json.loads(out.splitlines()[-1])["settings"]
    assert found["limit"] == "loader" and found["both_per_s"] == 290
    (tmp_path / "work" / "job.yaml").write_text("command: [python, train.py]\nlauncher: srun\nnodes: 4\n")
    code, out, _ = bench("--feed", "--dry-run", "job.yaml")
    assert (code, out.splitlines()[0]) == (0, "srun on 1 node, training alone")
    code, out, _ = bench("--feed", "--nodes", "2,1", "--repeats", "2", "--dry-run", "--", "python", "train.py")
    assert (code, len(out.splitlines())) == (0, 2 * 2 * 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--feed", "--plot", "a.svg"), "--plot: there is no plot of --feed"),
        (("--nodes", "1,9"), "--nodes: the partition train has at most 4 nodes, got 9"),
        (("--nodes", "0"), "must be numbers of nodes such as 1,2,4, got '0'"),
        (("--nodes", "one"), "must be numbers of nodes"),
        (("--launchers", "torchrun,torchrn"), "--launcher: there is no launcher 'torchrn'"),
        (("--launchers", ","), "no launcher given"),
        (("--variant", "amp"), "--variant amp: must be NAME=VALUE"),
        (("--variant", "8=x"), "--env.8: must be a variable's name"),
        (("--variant", "amp=on", "--variant", "NCCL-ALGO=Ring"), "--env.NCCL-ALGO: must be a variable's name"),
        (("--variant", "WORLD_SIZE=9"), "--env.WORLD_SIZE: WORLD_SIZE cannot be set"),
        (("--metrics", "throughput=images"), "--metrics.throughput: must have exactly one group"),
        (("--plot", "bench.xls"), "--plot bench.xls: must end with"),
        (("--repeats", "0"), "--repeats"),
    ],
)
def test_refused_before_anything_runs(bench, tmp_path, words, message):
    code, out, err = bench(*words, "--", "python", "train.py")
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "jobs").exists()


def test_an_interrupted_bench_cancels_its_job_and_shows_what_it_has(bench, tmp_path, monkeypatch):
    asked = []

    def ending(remote, job_id, real=jobs.ending):
        asked.append(job_id)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(remote, job_id)

    monkeypatch.setattr(jobs, "ending", ending)
    code, out, err = bench("--nodes", "1", *METRICS, "--", "python", "train.py")
    assert code == 130, err
    assert (tmp_path / "bin" / "scancel.called").read_text().split()[-1] == "2"
    assert "job 2 cancelled" in err
    assert [len(each["runs"]) for each in json.loads(out.splitlines()[-1])["settings"]] == [1]


def test_a_local_folder_is_uploaded_once_and_every_run_reads_it_there(bench, tmp_path):
    data = tmp_path / "work" / "data"
    data.mkdir()
    (data / "a.tar").write_text("a")
    there = tmp_path / "inputs" / inputs.read(data, "channels.train").digest
    there.mkdir(parents=True)  # an earlier upload: there is no ssh here
    (tmp_path / "work" / "job.yaml").write_text("command: [python, train.py]\nchannels: {train: ./data}\n")
    code, _, err = bench("job.yaml", "--nodes", "1,2", "--repeats", "2")
    assert code == 0, err
    assert err.count(f"data: 1 file, 1 bytes: already on the cluster, in {there}\n") == 1
    listed = [json.loads(path.read_text()) for path in (tmp_path / "jobs" / "by-id").glob("*/channels.json")]
    assert [each["train"]["source"] for each in listed] == [str(there)] * 4


def test_a_program_that_nodes_would_not_find_is_refused_before_anything_runs(bench, tmp_path):
    words = ("--nodes", "1", "--", "python", "nosuch.py")
    code, out, err = bench(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: command: no file nosuch.py in the workdir")
    assert not (tmp_path / "jobs").exists()
    code, out, err = bench("--dry-run", *words)
    assert (code, len(out.splitlines())) == (0, 3)
    assert err.startswith("warning: command: no file nosuch.py in the workdir")


def test_the_warnings_of_submit_come_once_for_all_runs(bench, tmp_path):
    (tmp_path / "work" / "out").symlink_to(tmp_path / "bin")
    words = ("--repeats", "1", "--env", "HF_TOKEN=x", "--variant", "WANDB_API_KEY=y", "--", "python", "train.py")
    code, _, err = bench(*words)
    assert code == 0, err
    assert [line.split(": ")[1] for line in err.splitlines() if line.startswith("warning: ")] == [
        "--env HF_TOKEN",
        f"the link out -> {tmp_path}/bin points outside the workdir",
        "--env WANDB_API_KEY",
    ]


def test_a_missing_secret_is_reported_before_the_connection(bench, monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    monkeypatch.setattr(connection, "head", lambda *_: pytest.fail("it has connected"))
    code, _, err = bench("--secrets", "TOKEN", "--", "python", "train.py")
    assert (code, "secrets: TOKEN is not set" in err) == (2, True)


def test_a_run_is_no_run_of_a_task(bench, tmp_path):
    """It would be skipped, or continue from the state of the run before it."""
    (tmp_path / "work" / "job.yaml").write_text("name: digits\ncommand: [python, train.py]\n")
    assert bench("job.yaml", "--nodes", "1", "--repeats", "2")[0] == 0
    assert len(scripts(tmp_path)) == 2
    assert list((tmp_path / "jobs" / "by-id").glob("*/task.json")) == []
