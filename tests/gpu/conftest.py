"""`make test-gpu`: the parts that read NVIDIA's tools or start NCCL, on a real GPU and without a cluster.

The jobs' Python is `GPU_PYTHON`, or else the machine's `python3`, where its torch finds a GPU. `GPU_RECORDS=DIR` keeps
what the machine's tools printed, each with its command and versions in a header.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

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
    told = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False, timeout=60)
    return sum(line.startswith("GPU ") for line in told.stdout.splitlines())


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


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    if not gpus():
        pytest.skip("no GPU: nvidia-smi is missing or lists none")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("never exercised by this tier")
    for each in NEVER:
        terminalreporter.line(f"- {each}")
