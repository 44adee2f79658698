"""The recipes on a real GPU, started by the job's own scripts: they use the GPU, learn, and resume.

`tests/nightly/test_templates_train.py` runs them on booted nodes, where they use the CPU and Gloo.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu.conftest import ON_A_GPU, PEAK, ROOT, are_shared, ranks, torch_python

RECIPES = {
    "fsdp": ("steps", 40, ("torch",)),
    "accelerate": ("epochs", 3, ("accelerate", "sklearn")),
    "lightning": ("epochs", 3, ("lightning", "sklearn")),
    "transformers": ("steps", 40, ("transformers", "accelerate")),
    "torchvision": ("epochs", 3, ("torchvision", "PIL")),
    "deepspeed": ("epochs", 3, ("deepspeed",)),
}
"""The option that says how long to train, its value for half of the training, and the packages."""


def _run(job: Any, name: str, state: Path, *words: str) -> dict[str, Any]:
    """The JSON that the first rank ends with."""
    command = (*ON_A_GPU, "train.py", "--state", str(state), *words)
    code, _, log, _ = job(ROOT / "examples" / name, launcher="torchrun", command=command, preflight="off")
    assert code == 0, log
    lines = [line.partition("] ")[2] for line in log.splitlines()]
    peaks = [int(line.rpartition(" ")[2]) for line in lines if line.startswith(PEAK)]
    assert len(peaks) == ranks() and min(peaks) > 0, log
    found: dict[str, Any] = json.loads([line for line in lines if line.startswith('{"')][-1])
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_learns_on_the_gpu_and_resumes(job: Any, name: str, tmp_path: Path) -> None:
    option, half, modules = RECIPES[name]
    torch_python(*modules)
    if name == "lightning" and are_shared():
        pytest.skip("Lightning wants a GPU for each rank")
    first = _run(job, name, tmp_path / "halves", f"--{option}", str(half))
    second = _run(job, name, tmp_path / "halves", f"--{option}", str(2 * half))
    whole = _run(job, name, tmp_path / "whole", f"--{option}", str(2 * half))
    assert (first["resumed_from"], second["resumed_from"], whole["resumed_from"]) == (0, half, 0)
    assert {each["world_size"] for each in (first, second, whole)} == {ranks()}
    assert second["loss"] < first["loss"]
    assert second["loss"] == pytest.approx(whole["loss"], abs=0.05)


def test_hello_trains_on_the_gpu(job: Any) -> None:
    command = (*ON_A_GPU, "train.py")
    code, _, log, _ = job(ROOT / "examples" / "hello", launcher="torchrun", command=command, preflight="off")
    assert code == 0, log
    assert f"rank 0 of {ranks()}: loss 0.0000" in log
    assert f"{PEAK}0" not in log
