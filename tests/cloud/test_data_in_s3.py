"""`gpucluster data shard` from S3 and into S3: the same bytes as on a disk, and clear messages for S3's refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.testing import patience

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "shard-tests"


def jpeg(number: int) -> bytes:
    return b"\xff\xd8\xff\xda\0\x02" + b"%d." % number * 40 + b"\xff\xd9"


@pytest.fixture(scope="module")
def s3(control_plane: Any) -> Any:
    client = control_plane.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="module")
def images(s3: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same 45 images in a folder and below s3://BUCKET/raw."""
    folder = tmp_path_factory.mktemp("images") / "raw"
    for number in range(45):
        name = f"{'val' if number % 5 == 4 else 'train'}/c{number % 3}/{number}.jpg"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg(number))
        s3.put_object(Bucket=BUCKET, Key=f"raw/{name}", Body=jpeg(number))
    s3.put_object(Bucket=BUCKET, Key="raw/", Body=b"")
    s3.put_object(Bucket=BUCKET, Key="rawer/x.jpg", Body=b"not below raw/")
    return folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder in which shards are written before their upload; it must be empty afterwards."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert list(tmp_path.glob("gpucluster-shards-*/*")) == []


def run(
    control_plane: Any, *words: object, credentials: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv(words), **as_user(control_plane, credentials), timeout=120, check=False)


def argv(words: tuple[object, ...]) -> list[str]:
    one = () if "--workers" in words else ("--workers", 1)
    return [sys.executable, "-m", "gpucluster.cli", "-c", "/none.yaml", "data", *map(str, (*words, *one))]


def as_user(control_plane: Any, credentials: dict[str, str] | None) -> dict[str, Any]:
    keys = credentials or {"AWS_ACCESS_KEY_ID": "localcloud", "AWS_SECRET_ACCESS_KEY": control_plane.secret}
    place = {"AWS_ENDPOINT_URL": control_plane.endpoint_url, "AWS_REGION": "us-east-1", "PYTHONPATH": str(ROOT)}
    return {"env": {**os.environ, **place, **keys}, "capture_output": True, "text": True, "cwd": ROOT}


def objects(s3: Any, prefix: str) -> dict[str, bytes]:
    """Names and contents of all files or objects below a place."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return {key.removeprefix(f"{prefix}/"): s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_source(content: dict[str, bytes]) -> dict[str, Any]:
    """Leaves out the source in the manifest, which differs here."""
    found: dict[str, Any] = dict(content)
    for name in content:
        if name.endswith("manifest.json"):
            found[name] = {key: value for key, value in json.loads(content[name]).items() if key != "source"}
    return found


@pytest.mark.parametrize("ways", [("s3", "disk"), ("disk", "s3"), ("s3", "s3")], ids="-to-".join)
def test_s3_and_disks_give_the_same_bytes(
    ways: tuple[str, str], control_plane: Any, s3: Any, images: Path, tmp_path: Path
) -> None:
    words = ("--shards", "train=5,val=2", "--format", "recordio")
    assert run(control_plane, "shard", images, tmp_path / "disk", *words).returncode == 0
    prefix = f"out-{'-'.join(ways)}"
    source = f"s3://{BUCKET}/raw/" if ways[0] == "s3" else images
    target = f"s3://{BUCKET}/{prefix}" if ways[1] == "s3" else tmp_path / "other"
    done = run(control_plane, "shard", source, target, *words)
    assert done.returncode == 0, done.stderr
    made = objects(s3, prefix) if ways[1] == "s3" else files(tmp_path / "other")
    assert without_source(made) == without_source(files(tmp_path / "disk"))
    checked = run(control_plane, "verify", target)
    assert checked.returncode == 0, checked.stderr


def test_a_killed_run_is_continued(control_plane: Any, s3: Any, images: Path) -> None:
    """Existing shards are not written again, and the result does not show that there were two runs."""
    words = ("shard", images / "train", f"s3://{BUCKET}/killed", "--shards", 30, "--workers", 2)
    run_one = {key: value for key, value in as_user(control_plane, None).items() if key != "capture_output"}
    process = subprocess.Popen(argv(words), **run_one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = patience.seconds() + 60
        while not any(name.startswith(".unfinished/done/") for name in objects(s3, "killed")):
            assert patience.seconds() < deadline
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert "manifest.json" not in objects(s3, "killed")
    assert "is incomplete: " in run(control_plane, "verify", f"s3://{BUCKET}/killed").stderr
    again = run(control_plane, *words)
    assert again.returncode == 0, again.stderr
    assert " of 30 shards already exist" in again.stderr
    names = objects(s3, "killed")
    assert len(names) == 2 * 30 + 2, "each shard has an index beside it"
    assert run(control_plane, "verify", f"s3://{BUCKET}/killed").returncode == 0


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (f"s3://{BUCKET}/ra", "none", f"error: s3://{BUCKET}/ra: no object has this prefix"),
        (f"s3://{BUCKET}/nope.txt", "none", f"error: s3://{BUCKET}/nope.txt: no such file list"),
        ("s3://no-such-bucket-of-ours/raw", "none", "no-such-bucket-of-ours/raw: the bucket does not exist"),
        ("s3:///raw", "none", "error: s3:///raw: has no bucket"),
        (f"s3://{BUCKET}/raw", "s3://no-such-bucket-of-ours/out", "the bucket does not exist"),
    ],
)
def test_a_missing_bucket_or_prefix_is_reported(
    control_plane: Any, images: Path, tmp_path: Path, source: str, target: str, said: str
) -> None:
    folder = tmp_path / "none"
    done = run(control_plane, "shard", source, str(folder) if target == "none" else target, "--shards", 2)
    assert done.returncode == 2
    assert said in done.stderr
    assert not folder.exists()


FOREIGN = "shard-tests-foreign"
POLICY = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{FOREIGN}/raw/c1/*"},
    {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{FOREIGN}/out/*"},
]}  # fmt: skip


def test_access_denied_is_reported(control_plane: Any, s3: Any, tmp_path: Path) -> None:
    s3.create_bucket(Bucket=FOREIGN)
    for number in range(6):
        s3.put_object(Bucket=FOREIGN, Key=f"raw/c{number % 2}/{number}.jpg", Body=jpeg(number))
    s3.put_bucket_policy(Bucket=FOREIGN, Policy=json.dumps(POLICY))
    words = ("shard", f"s3://{FOREIGN}/raw")
    writing = run(control_plane, *words, f"s3://{FOREIGN}/out", "--shards", 2)
    assert writing.returncode == 3
    assert f"error: s3://{FOREIGN}/out/.unfinished/samples.jsonl: access denied (PutObject)" in writing.stderr
    assert "s3_access" in writing.stderr
    reading = run(control_plane, *words, tmp_path / "out", "--shards", 2)
    assert reading.returncode == 2
    assert "3 files cannot be packed:" in reading.stderr
    assert f"\n  c1/1.jpg: s3://{FOREIGN}/raw/c1/1.jpg: access denied (GetObject)" in reading.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".unfinished"]


def test_the_local_clouds_s3_reports_the_size_of_an_object(s3: Any) -> None:
    """Once its answer to HEAD lacked the length, and comparisons of sizes failed."""
    s3.put_object(Bucket=BUCKET, Key="head", Body=b"12345")
    assert s3.head_object(Bucket=BUCKET, Key="head")["ContentLength"] == 5
