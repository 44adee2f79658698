"""The jobs that `gpucluster init --template` writes, on booted nodes with packages from PyPI: they learn, and resume.

An interrupted run gives the same result as an uninterrupted one, and four ranks the same as one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from bed import Bed, Submitted, wait_for

SUBJECTS = [
    "examples/accelerate/*",
    "examples/deepspeed/*",
    "examples/elastic/*",
    "examples/fsdp/*",
    "examples/lightning/*",
    "examples/torchvision/*",
    "examples/transformers/*",
    "gpucluster_job/packages/overlay.py",
    "gpucluster_train/flops.py",
    "gpucluster_train/last_frees.py",
    "gpucluster/launchers/torchrun.py",
    "gpucluster_job/torchrun.py",
    "bootstrap/environments/torch.txt",
]
COVERED_BY = (
    "test_templates.py: each template's files are accepted; the same launcher in test_launchers.py, packages in "
    "test_packages_overlay.py"
)
TIMEOUT_S = 420
"""A job may be the first that needs its nodes, its environment and its packages."""
ONE_RANK = ("--nodes", "1", "--gpus-per-node", "1")


def run(bed: Bed, name: str, state: str, *words: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON that the first rank ends with."""
    done = submit(bed, name, state, *words, options=("--follow", *options))
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    lines = [line.partition("] ")[2] for line in done.log]
    found: dict[str, Any] = json.loads([line for line in lines if line.startswith('{"')][-1])
    metrics = done.result["metrics"]
    assert metrics and all(metrics[each]["last"] == found[each] for each in metrics)
    return found


def submit(bed: Bed, name: str, state: str, *words: str, options: tuple[str, ...] = ()) -> Submitted:
    """Runs of the same name share $GPUCLUSTER_STATE."""
    task = ("--name", f"{name}-{state}", *options)
    return bed.submit(f"examples/{name}/job.yaml", *task, "--", "python", "train.py", *words, timeout_s=TIMEOUT_S)


def test_fsdp_continues_after_an_interruption(cluster: Bed) -> None:
    undisturbed = run(cluster, "fsdp", "one", options=ONE_RANK)
    assert (undisturbed["world_size"], undisturbed["resumed_from"]) == (1, 0)
    assert undisturbed["loss"] < 1.5, "a guess costs ln 32 = 3.5"
    job = submit(cluster, "fsdp", "four", "--steps", "100000").last
    log = f"{job['folder']}/log.txt"
    # the checkpoint of step 20 is complete when that of step 40 begins
    wait_for("a checkpoint", lambda: "step 60:" in cluster.ssh("cat", log), TIMEOUT_S)
    cluster.ssh("scancel", str(job["job_id"]))
    wait_for("the job's end", lambda: not cluster.ssh("squeue", "-h", "-j", str(job["job_id"])).strip(), 120)
    found = cluster.ssh("ls", "/home/ubuntu/tasks/fsdp/fsdp-four/state").split()
    saved = max(int(each.removeprefix("step-")) for each in found if not each.endswith(".tmp"))
    resumed = run(cluster, "fsdp", "four", "--steps", str(saved + 40))
    assert resumed["world_size"] == 4
    assert saved - 20 <= resumed["resumed_from"] <= saved
    whole = run(cluster, "fsdp", "whole", "--steps", str(saved + 40), options=ONE_RANK)
    assert resumed["loss"] == pytest.approx(whole["loss"], abs=0.05)


def halves_make_a_whole(bed: Bed, name: str, unit: str, half: int, abs_loss: float) -> None:
    """Two runs of one state, and one run of twice as much."""
    first = run(bed, name, "halves", f"--{unit}", str(half))
    second = run(bed, name, "halves", f"--{unit}", str(2 * half))
    whole = run(bed, name, "whole", f"--{unit}", str(2 * half))
    assert (first["resumed_from"], second["resumed_from"], whole["resumed_from"]) == (0, half, 0)
    assert [each["world_size"] for each in (first, second, whole)] == [4, 4, 4]
    assert second["loss"] < first["loss"]
    assert second["loss"] == pytest.approx(whole["loss"], abs=abs_loss)


def test_accelerate_continues_where_it_stopped(cluster: Bed) -> None:
    halves_make_a_whole(cluster, "accelerate", "epochs", 3, 0.01)


def test_lightning_continues_where_it_stopped(cluster: Bed) -> None:
    halves_make_a_whole(cluster, "lightning", "epochs", 3, 0.01)


def test_deepspeed_continues_where_it_stopped_without_a_compiler(cluster: Bed) -> None:
    assert "absent" in cluster.ssh("sh", "-c", "command -v c++ || echo absent")
    halves_make_a_whole(cluster, "deepspeed", "epochs", 3, 0.01)


def test_transformers_continues_where_it_stopped(cluster: Bed) -> None:
    halves_make_a_whole(cluster, "transformers", "steps", 40, 0.02)


def test_torchvision_continues_where_it_stopped(cluster: Bed) -> None:
    halves_make_a_whole(cluster, "torchvision", "epochs", 3, 0.05)


def test_elastic_horovod_continues_where_it_stopped(cluster: Bed) -> None:
    """Without a lost node: test_elastic.py has one."""
    halves_make_a_whole(cluster, "elastic", "epochs", 3, 0.01)
