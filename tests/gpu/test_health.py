"""The health checks against the real tools: each check can read the answer, passes a good GPU and finds a bad one.

The answers of broken GPUs are made from the real answer of this machine: one value in it is changed.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from gpu.conftest import gpus, output, torch_python
from gpucluster_node.health import checks, kernel_log, look, xid
from gpucluster_node.health.checks import Answer, Check
from gpucluster_node.health.facts import Facts

QUICK = {check.name: check for check in checks.QUICK}
FAULT = """
import ctypes, torch
torch.zeros(1, device="cuda")  # makes a context
cuda, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
text = b'''
.version 7.0
.target sm_70
.address_size 64
.visible .entry fault()
{
    .reg .b64 %address;
    .reg .b32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
'''
codes = [
    cuda.cuModuleLoadData(ctypes.byref(module), text),
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"fault"),
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None),
    cuda.cuCtxSynchronize(),
]
print(codes)
"""
"""A kernel that writes to address 16, which no program has."""


def _answer(check: Check) -> Answer:
    """Also kept as a record."""
    output(*check.argv)
    ((_, answer),) = look.ask(Facts(gpus=gpus()), [check], checks.LIMIT_S)
    return answer


def _faults(check: Check, text: str, having: int | None = None) -> list[str]:
    return look.judged(check, Answer(0, text), Facts(gpus=gpus() if having is None else having))


def test_a_good_node_has_no_faults() -> None:
    found = look.look(lambda: Facts(gpus=gpus()))
    assert {name: found[name] for name in ("GPUs", "GPU memory", "kernel log")} == {
        "GPUs": [],
        "GPU memory": [],
        "kernel log": [],
    }


def test_a_missing_gpu_is_found() -> None:
    answer = _answer(QUICK["GPUs"])
    assert answer.code == 0, answer.all
    assert _faults(QUICK["GPUs"], answer.text) == []
    assert _faults(QUICK["GPUs"], answer.text, gpus() + 1) == [f"nvidia-smi lists {gpus()} of {gpus() + 1} GPUs"]


def test_memory_that_could_not_be_remapped_is_found_on_each_gpu() -> None:
    """GPUs before Ampere have no such value."""
    answer = _answer(QUICK["GPU memory"])
    rows = answer.text.splitlines()
    if not rows or "N/A" in answer.text:
        pytest.skip("these GPUs do not remap rows")
    broken = "\n".join(re.sub(r", *(No|0)$", ", Yes", row) for row in rows)
    assert len(_faults(QUICK["GPU memory"], broken)) == gpus(), answer.text


def test_the_device_file_of_each_gpu_is_found() -> None:
    """By the address as the driver writes it into the kernel log: four digits of the domain, and no function."""
    addresses = output("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader").split()
    as_in_the_log = [each.lower().removeprefix("0000").rpartition(".")[0] for each in addresses]
    files = [kernel_log.device_file(each) for each in as_in_the_log]
    assert len(set(files)) == gpus() and all(Path(each).is_char_device() for each in files), (addresses, files)


def test_a_process_that_uses_a_gpu_is_seen() -> None:
    """DCGM's tests do not begin beside it."""
    program = "import sys, torch; torch.zeros(1, device='cuda'); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([torch_python(), "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        answer = _answer(checks.PROCESSES)
    assert f"process {process.pid} uses a GPU" in look.judged(checks.PROCESSES, answer, Facts(gpus=gpus())), answer


def _kernel_log() -> str:
    done = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the kernel log cannot be read: {done.stderr.strip()}")
    return done.stdout


def test_the_error_of_a_program_leaves_the_node_in_service(tmp_path: Path) -> None:
    """The driver logs Xid 31 (or 13), which says nothing about the GPU. The same line with the number of a broken GPU
    names this GPU."""
    before = _kernel_log().count("NVRM: Xid")
    (tmp_path / "fault.py").write_text(FAULT)
    argv = [torch_python(), str(tmp_path / "fault.py")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    lines = [line for line in _kernel_log().splitlines() if "NVRM: Xid" in line][before:]
    assert lines, done.stdout + done.stderr
    if folder := os.environ.get("GPU_RECORDS"):
        Path(folder, "xid-of-a-program.txt").write_text("\n".join([f"# codes {done.stdout}", *lines]) + "\n")
    assert list(xid.faults("\n".join(lines))) == []
    (fault,) = xid.faults(re.sub(r"\): \d+,", "): 79,", lines[0]))
    assert Path(kernel_log.device_file(fault.gpu)).is_char_device(), lines
