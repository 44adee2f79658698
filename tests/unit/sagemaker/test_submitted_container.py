"""What `submit` puts into the bucket and the request, run as a container of SageMaker would: by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster.sagemaker import submission
from gpucluster.sagemaker.request import ARCHIVE, OURS

JOB = """\
name: prepare
project: digits
launcher: srun
ntasks_per_node: 2
command: [python3, prepare.py, "--epochs", "3"]
env: {COLOUR: blue}
outputs: [shards]
"""
PROGRAM = """\
import json, os, sys
import gpucluster_train
rank = os.environ["RANK"]
seen = {name: os.environ[name] for name in ("COLOUR", "WORLD_SIZE", "SM_CURRENT_HOST", "GPUCLUSTER_STATE")}
with open(os.path.join(os.environ["GPUCLUSTER_OUTPUT_SHARDS"], rank), "w") as file:
    json.dump([sys.argv[1:], seen], file)
"""


@pytest.fixture
def ml(tmp_path: Path) -> Path:
    """Takes the place of /opt/ml."""
    folder, host = tmp_path / "opt" / "ml", "algo-1"
    config = folder / "input" / "config"
    config.mkdir(parents=True)
    files = {"hyperparameters": {}, "resourceconfig": {"current_host": host, "hosts": [host]}}
    for name, content in files.items():
        (config / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_the_job_runs_in_its_container(made, ml, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "prepare.py").write_text(PROGRAM)
    job = made(JOB + "workdir: work\n")
    channel = ml / "input" / "data" / OURS
    channel.mkdir(parents=True)
    (channel / ARCHIVE).write_bytes(submission.packed(job))
    algorithm = job.request["AlgorithmSpecification"]
    places = (("/opt/ml", str(ml)), ("/tmp/gpucluster", f"{tmp_path}/gpucluster"), ("-C /tmp", f"-C {tmp_path}"))
    words = algorithm["ContainerEntrypoint"]
    for real, played in places:
        words = [word.replace(real, played) if played not in word else word for word in words]
    given = {name: value.replace("/opt/ml", str(ml)) for name, value in job.request["Environment"].items()}
    (ml / "checkpoints" / "outputs" / "shards").mkdir(parents=True)  # the entry point makes the real one
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    platform = {"PATH": path, "TMPDIR": str(tmp_path), "SAGEMAKER_BASE_DIR": str(ml), "TRAINING_JOB_NAME": job.name}
    argv = [*words, *algorithm["ContainerArguments"]]
    done = subprocess.run(argv, env={**given, **platform}, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in "01":
        arguments, seen = json.loads((ml / "checkpoints" / "outputs" / "shards" / rank).read_text())
        assert arguments == ["--epochs", "3"]
        state = str(ml / "checkpoints")
        assert seen == {"COLOUR": "blue", "WORLD_SIZE": "2", "SM_CURRENT_HOST": "algo-1", "GPUCLUSTER_STATE": state}
    assert "could not be compared with s3://bucket-of-mine/gpucluster/tasks/digits/prepare" in done.stdout
