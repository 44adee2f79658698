"""`gpucluster data shard --array` on real nodes, and the frameworks' own readers on what comes out."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, Submitted
from PIL import Image

PROGRAMS = Path(__file__).parent / "programs"
PLACE = "/home/ubuntu/shards"
READERS = {"tfrecord": ("tensorflow", "read_tfrecords.py"), "recordio": ("mxnet", "read_recordio.py")}
BUILDING_S = 600
"""For a job whose environment is made before it."""
SAMPLES = {f"{split}/c{number % 4}/{number}.JPEG": number % 4 for split in ("train", "val") for number in range(22)}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that read, and images, which so come to the cluster."""
    folder = tmp_path_factory.mktemp("workdir")
    for _, program in READERS.values():
        shutil.copy(PROGRAMS / program, folder)
    draw = random.Random(0)
    for name in SAMPLES:
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (16, 16), draw.randbytes(768)).save(path, "JPEG")
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


def shard(bed: Bed, *words: str) -> tuple[int, str, dict[str, Any]]:
    done = bed.gpucluster("data", "shard", *words, "--follow", timeout_s=240)
    return done.returncode, done.stdout + done.stderr, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("format", READERS)
def test_what_an_array_packs_the_framework_reads(servers: Bed, images: str, workdir: Path, format: str) -> None:
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


def test_a_job_that_cannot_pack_says_why(servers: Bed, images: str) -> None:
    broken = f"{PLACE}/broken"
    servers.ssh("sh", "-c", f"cp -r {images} {broken} && truncate --size=-9 {broken}/val/c1/5.JPEG")
    code, said, last = shard(servers, broken, f"{PLACE}/none", "--shards", "4", "--array", "2")
    assert code == 4, said
    assert last["result"]["reason"] == f"{broken}: 1 file cannot be packed:"
    assert "val/c1/5.JPEG: truncated JPEG" in said
    assert "manifest.json" not in servers.ssh("ls", "-A", f"{PLACE}/none/val")


def test_jobs_pack_from_s3_into_s3(storage: Bed, workdir: Path) -> None:
    """With the jobs' role, which may read one prefix and write another; then read from here."""
    s3 = storage.client("s3")
    for name in SAMPLES:
        s3.put_object(Bucket="storage-tests", Key=f"data/raw/{name}", Body=(workdir / "images" / name).read_bytes())
    source, target = "s3://storage-tests/data/raw", "s3://storage-tests/jobs/shards"
    code, said, last = shard(storage, source, target, "--shards", "train=4,val=2", "--array", "2")
    assert code == 0, said
    checked = storage.gpucluster("data", "verify", target)
    assert checked.returncode == 0, checked.stderr
    assert [each["samples"] for each in json.loads(checked.stdout)["data_sets"]] == [22, 22]
    refused = storage.gpucluster("data", "shard", source, "s3://storage-tests/kept/x", "--shards", "1", "--array", "1")
    assert refused.returncode == 2
    assert "DST: jobs of " in refused.stderr and "s3_access with read-write: s3://storage-tests/jobs" in refused.stderr
