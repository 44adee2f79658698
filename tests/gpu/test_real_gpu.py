"""On a real GPU: NVIDIA's tools as the boot steps and the preflight read them, NCCL and Horovod as jobs start them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu.conftest import ON_A_GPU, PEAK, ROOT, are_shared, gpus, output, ranks, torch_python

from gpucluster_job.preflight import judge, probe

BOOTSTRAP = ROOT / "bootstrap"
QUERY = ("--query-gpu=index,ecc.errors.uncorrected.volatile.total", "--format=csv,noheader,nounits")
"""nvidia-smi with the preflight's options."""


def test_the_preflight_counts_the_gpus_and_finds_no_memory_errors() -> None:
    answer = output("nvidia-smi", *QUERY)
    assert probe.gpus((0, answer)) == {"gpus": gpus(), "gpus_with_memory_errors": []}


def test_the_judge_lets_this_machine_pass() -> None:
    answer = output("nvidia-smi", *QUERY)
    report = {
        "node": "here",
        "index": 0,
        "errors": {},
        "type": None,
        "writable": True,
        "mounts": [],
        "efa_interfaces": 0,
    }
    report |= probe.gpus((0, answer)) | {"sum": 1.0, "clock_offset_s": 0.0, "clock_error_s": 0.0}
    expected = {"gpus": gpus(), "efa": "auto", "efa_interfaces": {}, "mounts": []}
    assert judge.judge(expected, [report], ["here"]).errors == []


@pytest.mark.parametrize("more", [(), ("--query",), ("topo", "--matrix"), ("nvlink", "--status")])
def test_the_tools_output_can_be_kept(more: tuple[str, ...]) -> None:
    """With GPU_RECORDS these become records of what stand-ins print. A single GPU has no NVLink."""
    assert output("nvidia-smi", *more) or more[:1] == ("nvlink",)


def _step(name: str, script: str) -> subprocess.CompletedProcess[str]:
    """Runs functions of a boot step on this machine."""
    files = (*(f"lib/{each}.sh" for each in ("runner", "nvidia", "this_machine")), f"steps/gpu/{name}.sh")
    sources = "\n".join(f'source "{BOOTSTRAP}/{each}"' for each in files)
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{sources}\n{script}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_driver_step_reads_the_driver_and_counts_the_gpus() -> None:
    this_machine = f"this_machine() {{ GPUS={gpus()} INSTANCE_TYPE=here DRIVER_VERSIONS=('' '' 580); }}"
    done = _step("nvidia_driver", f"{this_machine}\nstep_nvidia_driver")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"GPUs {gpus()}" in done.stdout


def test_the_dcgm_step_reads_its_version() -> None:
    output("dcgmi", "--version")
    this_machine = f"this_machine() {{ GPUS={gpus()} DCGM_VERSIONS=('' '' 4) CUDA_VERSIONS=('' '' 13.0); }}"
    done = _step("dcgm", f"{this_machine}\nstep_dcgm")
    assert done.returncode == 0 and re.search(r"DCGM \d+\.\d+", done.stdout), done.stdout + done.stderr


def test_torchrun_reduces_over_nccl_through_the_job_and_rank_wrappers(job: Any) -> None:
    code, result, log, folder = job(
        launcher="torchrun", command=(*ON_A_GPU, "all_reduce.py"), preflight="off" if are_shared() else "full",
        metrics={"gb_per_s": r"bus bandwidth (\S+) GB/s"}, env={"NCCL_DEBUG": "INFO"},
    )  # fmt: skip
    assert code == 0, log
    assert f"sum over {ranks()} ranks is right, on cuda" in log
    assert "NCCL version" in log or result.get("nccl"), "NCCL reports itself with NCCL_DEBUG=INFO"
    if records := os.environ.get("GPU_RECORDS"):
        Path(records, "job-log.txt").write_text(log)
        Path(records, "job-result.json").write_text(json.dumps(result, indent=2))


def test_a_rank_that_dies_on_the_gpu_is_named(job: Any) -> None:
    """The first rank asks for more memory than any GPU has."""
    program = "import os, torch; assert int(os.environ['RANK']) or torch.empty(2**45, device='cuda') is None"
    code, result, log, _ = job(launcher="torchrun", command=("python", "-c", program), preflight="off")
    assert code != 0
    assert result["failed_rank"] == 0, result
    assert "OutOfMemoryError" in result["reason"], log


def test_horovod_reduces_over_nccl(job: Any) -> None:
    built = [torch_python(), "-c", "import horovod.torch as hvd; raise SystemExit(not hvd.nccl_built())"]
    if subprocess.run(built, capture_output=True, check=False, timeout=120).returncode:
        pytest.skip("no Horovod with NCCL in that Python")
    code, _, log, _ = job(launcher="horovodrun", command=(*ON_A_GPU, "horovod_sum.py"), preflight="off")
    assert code == 0, log
    assert f"sum over {ranks()} ranks is right, on cuda; NCCL built: " in log
    assert f"{PEAK}0" not in log
