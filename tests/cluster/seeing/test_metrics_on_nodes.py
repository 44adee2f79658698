"""A job on two booted nodes gives metrics in both ways: they are read while it runs, and are in its result."""

from __future__ import annotations

import json
from typing import Any

from bed import Bed, wait_for

PROGRAM = """
import os, time
from gpucluster_train import log
rank = int(os.environ["RANK"])
for step in range(40):
    print(f"accuracy: {step / 40} at {step}", flush=True)
    log(step=step, loss=10 - step + 100 * rank)
    if rank == 1:
        log(step=step, other=step)
    time.sleep(0.5)
"""
JOB = (
    "--nodes", "2", "--gpus-per-node", "1", "--launcher", "srun",
    "--metrics", r"accuracy=accuracy: (\S+) at (?P<step>\d+)", "--", "python", "-c", PROGRAM,
)  # fmt: skip


def test_metrics_are_read_while_the_job_runs_and_after_it(people: Bed) -> None:
    bob = people.of("bob")
    job_id = str(bob.submit(*JOB).last["job_id"])

    def found() -> dict[str, Any]:
        done = bob.gpucluster("metrics", job_id, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)["metrics"]
        return answer

    wait_for("values of both kinds", lambda: {"accuracy", "loss"} <= set(found()), 400)
    state = people.ssh("sudo", "-u", "bob", "sh", "-c", f"cat /home/bob/jobs/by-id/{job_id}/result.json || :")
    assert not state, "it still runs"
    first = found()
    assert [each["step"] for each in first["loss"]] == list(range(len(first["loss"])))
    assert first["loss"][0]["value"] == 10.0 and first["accuracy"][0] | {"time_s": 0} == {
        "time_s": 0, "step": 0, "value": 0.0
    }  # fmt: skip

    ending = bob.gpucluster("logs", "-f", job_id, timeout_s=200)
    assert ending.returncode == 0, ending.stderr
    steps = {name: [each["step"] for each in several] for name, several in found().items()}
    assert steps == {name: list(range(40)) for name in ("accuracy", "loss", "other")}
    result = json.loads(people.ssh("sudo", "cat", f"/home/bob/jobs/by-id/{job_id}/result.json"))
    assert result["metrics"]["accuracy"]["last"] == 39 / 40 and result["metrics"]["accuracy"]["count"] == 40
    assert (result["metrics"]["loss"]["last"], result["metrics"]["other"]["count"]) == (-29.0, 40)
    drawn = bob.gpucluster("metrics", job_id, "loss")
    assert drawn.stdout.splitlines()[0] == "loss  min -29  max 10  last -29 at step 39"
