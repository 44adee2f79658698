"""The job's own packages, which pip installs on each host before its ranks start."""

from __future__ import annotations

import os
from pathlib import Path

from gpucluster_job.log import Said, say
from gpucluster_job.runner import Runner
from gpucluster_job.sagemaker.ours import LIBRARY
from gpucluster_job.settings import GaveUp

FILE = Path(LIBRARY).parent / "requirements.txt"
PIP = ("python3", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement")


def install(runner: Runner, file: Path = FILE) -> None:
    """Paths in the file are relative to the job's folder, which is the current one. Raises GaveUp, or Stopped."""
    if not file.exists():
        return
    say("[sagemaker] pip installs the job's packages on this host")
    said = Said(say)
    if code := runner.phase([*PIP, str(file)], said, environment=dict(os.environ)):
        errors = [line for line in said.lines if line.startswith("ERROR: ")]
        last = (errors or said.lines or ["it printed nothing"])[0]
        raise GaveUp(f"pip could not install the job's packages, exit code {code}: {last}")
