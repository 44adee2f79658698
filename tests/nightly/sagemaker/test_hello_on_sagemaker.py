"""The first job of the README as a training job: its two files are those that the Slurm cluster runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bed import ROOT

from tests.cluster.sagemaker import trainer
from tests.nightly.sagemaker import hosts

SUBJECTS = [
    "gpucluster_job/sagemaker/*.py",
    "gpucluster/sagemaker/request.py",
    "localcloud/training/*.py",
    "examples/hello/*",
    "bootstrap/environments/torch.txt",
    "tests/nightly/sagemaker/hosts.py",
]
COVERED_BY = "test_training_jobs_booted.py: mpirun on three hosts; test_training_launchers.py: torchrun's arguments"
TORCHRUN = f'#!/bin/sh\nexec {hosts.GUESTS}/bin/python3 -m torch.distributed.run "$@"\n'
PATH = f"PATH={hosts.GUESTS}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

pytestmark = pytest.mark.timeout(1800)


def test_two_hosts_train_with_torchrun(tmp_path: Path) -> None:
    """On CPUs, with two ranks on each host: all end with the same loss, and so with the same weights."""
    for folder in ("programs", "cloud"):
        (tmp_path / folder).mkdir()
    programs = hosts.programs(tmp_path / "programs", "torch.txt")
    (programs / "bin/torchrun").write_text(TORCHRUN)  # pip's has the path of this machine
    (programs / "bin/torchrun").chmod(0o755)
    (programs / "bin/python").unlink(missing_ok=True)
    (programs / "bin/python").symlink_to("python3")
    settings = tmp_path / "sagemaker.yaml"
    settings.write_text(f"region: us-east-1{trainer.SECTION}")
    job = str(ROOT / "examples/hello/job.yaml")
    words = ("submit", job, "--on", "sagemaker", "--ntasks-per-node", "2", "--env", PATH, "--follow")
    with hosts.up(tmp_path / "cloud", programs) as bed:
        done = bed.gpucluster("-c", str(settings), *words, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    ends = re.findall(r"\[(\d) algo-(\d)\] rank \1 of 4: loss (0\.\d+)", done.stdout)
    assert sorted((rank, host) for rank, host, _ in ends) == [("0", "1"), ("1", "1"), ("2", "2"), ("3", "2")]
    assert all(float(loss) < 0.01 for *_, loss in ends), done.stdout
