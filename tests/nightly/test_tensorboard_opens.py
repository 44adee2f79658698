"""The real TensorBoard in the environment that `gpucluster tensorboard` makes: it shows runs behind links, with points
that are written while it runs, and reads S3 without TensorFlow."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from gpucluster.cli.seeing import tensorboard, viewer
from gpucluster.following.event_files import Run
from localcloud.testing.patience import wait_for

SUBJECTS = ["gpucluster/cli/seeing/tensorboard.py", "gpucluster/cli/seeing/viewer.py"]
COVERED_BY = "tests/unit/cli/test_tensorboard.py, without TensorBoard"

WRITE = """
import sys
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
folder, first, *values = sys.argv[1:]
writer = EventFileWriter(folder)
for step, value in enumerate(values, int(first)):
    value = Summary.Value(tag="loss", simple_value=float(value))
    writer.add_event(Event(wall_time=1764400000.0 + step, step=step, summary=Summary(value=[value])))
writer.close()
"""


@pytest.fixture(scope="module")
def program() -> Path:
    return viewer.python(print)


def write(program: Path, folder: Path, first: int, *values: float) -> None:
    subprocess.run([program, "-c", WRITE, str(folder), str(first), *map(str, values)], check=True)


def ask(port: int, path: str) -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/{path}", timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None


def points(port: int, run: str) -> list[list[float]]:
    query = urllib.parse.urlencode({"run": run, "tag": "loss"})
    return [point[1:] for point in ask(port, f"plugin/scalars/scalars?{query}") or []]


def test_runs_have_the_names_of_jobs_and_their_curves_grow(program: Path, tmp_path: Path) -> None:
    runs = [Run("12", "12 digits", "/home/a"), Run("29_0", "29 digits/lr=0.1,seed=1", "/home/b")]
    logs = tensorboard.laid_out(tmp_path, runs)
    write(program, tmp_path / "copy/home/a", 0, 3, 2)
    write(program, tmp_path / "copy/home/b", 0, 5)
    on = viewer.port(None)
    with viewer.shown(program, str(logs), on, 1):
        names = sorted(run.label for run in runs)
        wait_for("both runs", lambda: sorted(ask(on, "runs")) == names, 60)
        assert points(on, "12 digits") == [[0, 3.0], [1, 2.0]]
        write(program, tmp_path / "copy/home/a", 2, 1)
        wait_for("a new point", lambda: points(on, "12 digits")[-1] == [2, 1.0], 60)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    names = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**names, "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port())}.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="mine")
    yield client
    server.stop()


def test_it_reads_what_the_jobs_copied_to_s3(program: Path, tmp_path: Path, bucket: Any) -> None:
    write(program, tmp_path, 0, 3, 2)
    (file,) = tmp_path.iterdir()
    bucket.upload_file(str(file), "mine", f"tensorboard/small/digits/net/{file.name}")
    on = viewer.port(None)
    with viewer.shown(program, "s3://mine/tensorboard/small", on, 5):
        wait_for("the run", lambda: ask(on, "runs") == ["digits/net"], 90)
        assert points(on, "digits/net") == [[0, 3.0], [1, 2.0]]
