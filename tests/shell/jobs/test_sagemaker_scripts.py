"""A script written for SageMaker, as a job of a Slurm cluster: it knows nothing of GpuCluster."""

from __future__ import annotations

import json
import subprocess

import pytest
from stubbed_jobs import prepare

SCRIPT = """\
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--hosts", type=json.loads, default=os.environ["SM_HOSTS"])
parser.add_argument("--current-host", default=os.environ["SM_CURRENT_HOST"])
parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
parser.add_argument("--output-data-dir", default=os.environ["SM_OUTPUT_DATA_DIR"])
given = parser.parse_args()
with open(os.path.join(given.model_dir, os.environ["RANK"]), "w") as file:
    json.dump([given.epochs, given.hosts, given.current_host, os.path.isdir(given.output_data_dir)], file)
"""


@pytest.mark.parametrize("launcher", ["torchrun", "horovodrun", "mpirun", "srun"])
def test_it_finds_its_hosts_and_folders(tmp_path, launcher):
    command = ("python", "-c", SCRIPT, "--epochs", "3")
    process = subprocess.run(
        **prepare(tmp_path, {}, {"launcher": launcher, "command": command}), timeout=60, check=False
    )
    assert process.returncode == 0
    model = tmp_path / "job" / "sagemaker" / "model"
    written = {path.name: json.loads(path.read_text()) for path in model.iterdir()}
    assert sorted(written) == ["0", "1", "2", "3"]
    hosts = written["0"][1]
    assert len(hosts) == 2
    for rank, (epochs, known, here, has_folder) in written.items():
        assert (epochs, known, here, has_folder) == (3, hosts, hosts[int(rank) // 2], True)
