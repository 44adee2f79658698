"""`gpucluster data shard --array` on real nodes, and the frameworks' own readers of the shards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT, Bed, Submitted
from test_data_shards import SAMPLES, draw_images, shard

SUBJECTS = [
    "gpucluster/data/*",
    "gpucluster/submission/shard_array.py",
    "templates/job/shard.sbatch",
    "tests/cluster/test_data_shards.py",
    "tests/cluster/programs/read_*.py",
]
COVERED_BY = "test_data_shards.py, test_data_records.py"
PROGRAMS = ROOT / "tests" / "cluster" / "programs"
PLACE = "/home/ubuntu/shards"
READERS = {"tfrecord": ("tensorflow", "read_tfrecords.py"), "recordio": ("mxnet", "read_recordio.py")}
BUILDING_S = 600
"""For a job whose environment is made before it."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job folder with programs that read, and with images for the cluster."""
    folder = tmp_path_factory.mktemp("workdir")
    for _, program in READERS.values():
        shutil.copy(PROGRAMS / program, folder)
    draw_images(folder / "images")
    return folder


@pytest.fixture(scope="module")
def images(servers: Bed, workdir: Path) -> str:
    """Where the images are on the cluster."""
    command = ("--workdir", str(workdir), "--follow", "--", "cp", "-rT", "images", f"{PLACE}/src")
    servers.ssh("mkdir", "-p", PLACE)
    job = servers.submit("--launcher", "srun", "--framework", "tensorflow", "--ntasks-per-node", "1", *command,
                         timeout_s=BUILDING_S)  # fmt: skip
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    return f"{PLACE}/src"


@pytest.mark.parametrize("format", READERS)
def test_a_framework_reads_the_shards_that_an_array_of_jobs_packed(
    servers: Bed, images: str, workdir: Path, format: str
) -> None:
    target, (framework, program) = f"{PLACE}/{format}", READERS[format]
    code, said, last = shard(servers, images, target, "--shards", "train=5,val=2", "--format", format, "--array", "2")
    assert code == 0, said
    assert last["state"] == "COMPLETED" and last["result"]["exit_code"] == 0
    assert f"[plan] {target}/train: 22 samples in 5 shards" in said
    assert "[part-0] " in said and "[part-1] " in said
    for split in ("train", "val"):
        words = ("--workdir", str(workdir), "--follow", "--", "python", program, f"{target}/{split}")
        job = servers.submit("--launcher", "srun", "--framework", framework, "--ntasks-per-node", "1", *words,
                             timeout_s=BUILDING_S)  # fmt: skip
        assert read(job) == sorted([name, label] for name, label in SAMPLES.items() if name.startswith(split))


def read(job: Submitted) -> list[Any]:
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    (line,) = [line for line in job.log if "] [[" in line]
    found: list[Any] = json.loads(line.partition("] ")[2])
    return found


TRUNCATED = "val/c1/5.JPEG: truncated JPEG: its end marker is missing"


def test_a_job_that_cannot_pack_says_why(servers: Bed, images: str) -> None:
    broken = f"{PLACE}/broken"
    servers.ssh("sh", "-c", f"cp -r {images} {broken} && truncate --size=-9 {broken}/val/c1/5.JPEG")
    code, said, last = shard(servers, broken, f"{PLACE}/none", "--shards", "4", "--array", "2")
    assert code == 4, said
    assert last["result"]["reason"] == f"{broken}: 1 file cannot be packed: {TRUNCATED}"
    assert TRUNCATED in said
    assert "manifest.json" not in servers.ssh("ls", "-A", f"{PLACE}/none/val")
