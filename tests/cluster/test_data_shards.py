"""`gpucluster data shard --array` on real nodes, from S3 to S3. tests/nightly has the frameworks' readers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bed import Bed
from PIL import Image

SAMPLES = {f"{split}/c{number % 4}/{number}.JPEG": number % 4 for split in ("train", "val") for number in range(22)}


def draw_images(folder: Path) -> None:
    draw = random.Random(0)
    for name in SAMPLES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (16, 16), draw.randbytes(768)).save(path, "JPEG")


def shard(bed: Bed, *words: str) -> tuple[int, str, dict[str, Any]]:
    done = bed.gpucluster("data", "shard", *words, "--follow", timeout_s=240)
    return done.returncode, done.stdout + done.stderr, json.loads(done.stdout.splitlines()[-1])


def test_jobs_pack_from_s3_into_s3(storage: Bed, tmp_path: Path) -> None:
    """The jobs' role may read one prefix and write to another; this process then reads the result."""
    s3 = storage.client("s3")
    draw_images(tmp_path)
    for name in SAMPLES:
        s3.put_object(Bucket="storage-tests", Key=f"data/raw/{name}", Body=(tmp_path / name).read_bytes())
    source, target = "s3://storage-tests/data/raw", "s3://storage-tests/jobs/shards"
    code, said, last = shard(storage, source, target, "--shards", "train=4,val=2", "--array", "2")
    assert code == 0, said
    checked = storage.gpucluster("data", "verify", target)
    assert checked.returncode == 0, checked.stderr
    assert [each["samples"] for each in json.loads(checked.stdout)["data_sets"]] == [22, 22]
    refused = storage.gpucluster("data", "shard", source, "s3://storage-tests/kept/x", "--shards", "1", "--array", "1")
    assert refused.returncode == 2
    assert "DST: jobs of " in refused.stderr and "s3_access with read-write: s3://storage-tests/jobs" in refused.stderr
