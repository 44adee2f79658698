"""`make test-gpu`: the parts that read NVIDIA's tools or start NCCL, on a real GPU and without a cluster.

The jobs' Python is `GPU_PYTHON`, or else the machine's `python3`, where its torch finds a GPU. `GPU_RECORDS=DIR` keeps
what the machine's tools printed, each with its command and versions in a header.

`GPU_RANKS=2` starts two ranks on a machine with one GPU, which share it. This needs NCCL 2.30 or later, which
`GPU_NCCL=libnccl.so.2` can add to an older torch. Tests that give each rank a GPU of its own are skipped then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from shell.jobs.stubbed_jobs import finished, prepare

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "proof" / "programs"
MOST_RANKS = 4
"""At most four GPUs, as the stubbed partition's nodes have."""
ON_A_GPU = ("python", str(ROOT / "tests" / "gpu" / "on_a_gpu.py"))
"""Begins a command: tests/gpu/on_a_gpu.py."""
PEAK = "peak of the GPU memory: "
NEVER = (
    "an instance of EC2: its boot, its roles, its network",
    "EFA and aws-ofi-nccl, unless fi_info lists interfaces here",
    "more than one node",
    "FSx for Lustre and BeeGFS",
    "GDRCopy between nodes",
    "Slurm's control groups around GPUs",
)
"""Parts that no run of this tier covers, on any machine."""


@cache
def gpus() -> int:
    """The number of GPUs that nvidia-smi lists; 0 without it."""
    if not shutil.which("nvidia-smi"):
        return 0
    done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False, timeout=60)
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def ranks() -> int:
    return int(os.environ.get("GPU_RANKS") or min(gpus(), MOST_RANKS))


def are_shared() -> bool:
    """Whether ranks share GPUs, which NCCL refuses by default."""
    return ranks() > gpus()


def shared() -> dict[str, str]:
    """The environment of such ranks."""
    if not are_shared():
        return {}
    library = os.environ.get("GPU_NCCL")
    return {"NCCL_MULTI_RANK_GPU_ENABLE": "1", **({"LD_PRELOAD": library} if library else {})}


@cache
def python() -> str | None:
    """A Python whose torch finds a GPU."""
    # `make` puts the project's Python first, which has no torch.
    machines = shutil.which("python3", path="/opt/conda/bin:/opt/pytorch/bin:/usr/local/bin:/usr/bin")
    for each in filter(None, (os.environ.get("GPU_PYTHON"), machines, shutil.which("python3"))):
        finds = [each, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"]
        if subprocess.run(finds, capture_output=True, check=False, timeout=120).returncode == 0:
            return each
    return None


def output(*argv: str) -> str:
    """The output of a tool of this machine, also written to GPU_RECORDS if set. Skips if the tool is missing."""
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    if folder := os.environ.get("GPU_RECORDS"):
        name = "-".join(word.strip("-").replace("/", "_").replace("=", "_") for word in argv)
        head = f"# command: {' '.join(argv)}\n# date: {datetime.now(UTC):%Y-%m-%d}; exit code {done.returncode}\n"
        Path(folder, argv[0]).mkdir(parents=True, exist_ok=True)
        Path(folder, argv[0], f"{name[:100]}.txt").write_text(head + done.stdout)
    return done.stdout


def torch_python(*modules: str) -> str:
    """The Python of the jobs. Skips if it lacks one of these modules."""
    found = python()
    if not found:
        pytest.skip("no Python whose torch sees a GPU: GPU_PYTHON names one")
    for module in modules:
        if subprocess.run([found, "-c", f"import {module}"], capture_output=True, check=False, timeout=300).returncode:
            pytest.skip(f"{found} has no {module}")
    return found


@pytest.fixture
def job(tmp_path: Path) -> Any:
    """job(**keys of the spec) -> (exit code, result, log, folder): one node, a rank for each GPU, real launchers.

    programs: the folder whose files the job gets. It may be called several times in a test.
    """

    def start(programs: Path = PROGRAMS, **keys: Any) -> tuple[int, dict[str, Any], str, Path]:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        spec = {"nodes": 1, "gpus_per_node": ranks(), "ntasks_per_node": ranks(), "workdir": str(programs)}
        prepared = prepare(place, {}, {**spec, **keys, "env": {**shared(), **keys.get("env", {})}})
        stubs, interpreter = place / "stubs", torch_python()
        real = {
            "python": f'exec {interpreter} "$@"',
            "python3": f'exec {interpreter} "$@"',
            "torchrun": f'exec {interpreter} -m torch.distributed.run "$@"',
            "horovodrun": f'exec {Path(interpreter).parent}/horovodrun "$@"',
            "scontrol": 'echo "train-1"',
            # A node cannot have the address 127.0.0.1. A connection to 0.0.0.0 reaches this machine.
            "getent": 'echo "0.0.0.0 STREAM"',
            "ip": 'echo "1: lo    inet 127.0.0.1/8 scope host lo"',
        }
        for name, text in real.items():
            (stubs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
            (stubs / name).chmod(0o755)
        for program in (each for each in programs.iterdir() if each.is_file()):
            (place / "job" / "code" / program.name).write_bytes(program.read_bytes())
        prepared["env"] |= {"SLURM_JOB_NODELIST": "train-1", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        process = subprocess.run(**prepared, timeout=500, check=False)
        return finished(process.returncode, place / "job")

    return start


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    if not gpus():
        pytest.skip("no GPU: nvidia-smi is missing or lists none")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("never exercised by this tier")
    for each in NEVER:
        terminalreporter.line(f"- {each}")
