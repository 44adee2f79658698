"""A sweep on booted nodes: one Slurm array, a folder for each element, and a second run of the failed element."""

from __future__ import annotations

import json
import re

from bed import Bed

# One of six values fails at its first run. Files in an element's folder are still there when it runs again.
PROGRAM = """
echo "accuracy: 0.{seed}"
echo "$GPUCLUSTER_SWEEP_SEED" >>seeds.txt
if [ {seed} = 4 ] && [ "$(wc -l <seeds.txt)" = 1 ]; then echo "error: not this time" >&2; exit 3; fi
"""
JOB = ("--workdir", "tests/cluster/programs", "--nodes", "1", "--ntasks-per-node", "1", "--launcher", "srun")


def row(cluster: Bed, job_id: str) -> dict[str, str]:
    (found,) = [each for each in json.loads(cluster.gpucluster("jobs", "--json").stdout) if each["job_id"] == job_id]
    return {key: found[key] for key in ("state", "reason")}


def test_a_sweep_runs_and_its_failed_element_runs_again(cluster: Bed) -> None:
    words = ("--name", "sweep", *JOB, "--sweep", "seed=1..6", "--max-parallel", "2")
    metrics = ("--metrics", "accuracy=accuracy: ([0-9.]+)")
    place = ("--output", "logs/%x-%A_%a.out")
    first = cluster.submit(*words, *metrics, *place, "--follow", "--", "bash", "-c", PROGRAM)
    array = str(first.last["job_id"])
    assert first.exit_code == 4, first.told
    assert re.search(rf"job {array}: (\d running, )?\d pending", first.told), first.told
    assert f"5 completed, 1 failed; {array}_3: rank 0 on train-" in first.told
    assert row(cluster, array) == {"state": "FAILED", "reason": "5 completed, 1 failed"}
    queue = cluster.ssh("squeue", "--noheader", "--states=all", "--format=%i %T", "--array", "--jobs", array).split(
        "\n"
    )
    assert sorted(filter(None, queue)) == [f"{array}_{i} {'FAILED' if i == 3 else 'COMPLETED'}" for i in range(6)]
    assert cluster.gpucluster("logs", f"{array}_0").stdout.count("accuracy: ") == 1
    why = cluster.gpucluster("why", f"{array}_3").stdout
    assert why.startswith(f"job {array}_3 failed: rank 0 on train-")
    assert "error: not this time" in why

    copies = f"cd; for i in 0 1 2 3 4 5; do cmp {first.last['folder']}/$i/log.txt logs/sweep-{array}_$i.out; done"
    assert cluster.ssh("sh", "-c", f"{copies}; find logs -type l") == ""

    again = cluster.gpucluster("resubmit", array, "--failed", "--follow", timeout_s=240)
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout.splitlines()[-1])
    assert second["elements"] == [3]
    found = json.loads(cluster.gpucluster("results", array, "--json").stdout)
    ids = [f"{array}_0", f"{array}_1", f"{array}_2", f"{second['job_id']}_3", f"{array}_4", f"{array}_5"]
    assert [each["job_id"] for each in found] == ids
    assert [each["state"] for each in found] == ["completed"] * 6
    assert [each["metrics"] for each in found] == [{"accuracy": i / 10} for i in range(1, 7)]
    folder = first.last["folder"]
    written = cluster.ssh(
        "sh", "-c", f"cat {folder}/*/code/seeds.txt; ls {folder}/code/seeds.txt {folder}/runs/* 2>/dev/null || :"
    ).split()
    assert written == [
        "1",
        "2",
        "3",
        "4",
        "4",
        "5",
        "6",
        *(f"{folder}/runs/{run}" for run in (array, second["job_id"])),
    ]


def test_test_only_reports_when_a_job_would_start(cluster: Bed) -> None:
    done = cluster.gpucluster("submit", "--test-only", *JOB, "--", "true")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["partition"], answer["nodes"][:6]) == ("train", "train-")
    refused = cluster.gpucluster("submit", "--test-only", *JOB, "--constraint", "nowhere", "--", "true")
    assert refused.returncode == 2
    assert "Slurm would reject the job: Invalid feature specification" in refused.stderr
