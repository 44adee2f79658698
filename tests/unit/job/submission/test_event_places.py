"""Where TensorBoard's event files of a job are copied to."""

from __future__ import annotations

import json

import pytest

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import Layout, expand
from gpucluster.submission import task as files_of
from gpucluster_job.task.asked import Asked

READ = "  - {uri: s3://data/images}\n"
WRITE = '  - {uri: "s3://mine/results/", access: read-write}\n  - {uri: "s3://mine/more", access: read-write}\n'


def layout(entries: str) -> Layout:
    access = f"s3_access:\n{entries}" if entries else ""
    return expand(
        loads(
            "name: small\nregion: us-east-1\n"
            f"partitions: [{{name: train, instance_types: [g5.12xlarge], max_nodes: 2}}]\n{access}"
        )
    )


def events(entries: str, **flags: object) -> str:
    on = layout(entries)
    spec = load(on, flags={"command": ("true",)} | flags)
    request = SbatchRequest.from_spec(spec, on, "/home/ubuntu/jobs/true-20261129-120000-4f1a")
    files = files_of.files(request, None, None)
    return json.loads(files["task.json"].text).get("events", "") if files else ""


def test_a_task_has_one_place_for_all_of_its_runs() -> None:
    assert events(READ + WRITE, name="net", project="digits") == "s3://mine/results/tensorboard/small/digits/net"


def test_a_job_that_is_no_task_has_its_own() -> None:
    assert events(WRITE) == "s3://mine/results/tensorboard/small/true-20261129-120000-4f1a"


@pytest.mark.parametrize("entries", ["", READ])
def test_without_a_bucket_that_jobs_may_write_they_stay_on_the_cluster(entries: str) -> None:
    assert events(entries, name="net", project="digits") == ""


def test_a_state_in_s3_has_them_already() -> None:
    assert events(WRITE, name="net", project="digits", state="s3://mine/results/states") == ""


def test_a_job_with_its_own_keys_may_not_write_the_clusters_bucket() -> None:
    assert events(WRITE, name="net", project="digits", env={"AWS_ACCESS_KEY_ID": "AKIA"}) == ""


def test_each_element_of_a_sweep_has_its_own(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("GPUCLUSTER_ARRAY_DIR", str(tmp_path))
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "task.json").write_text(json.dumps({"events": "s3://mine/tensorboard/small/digits/net"}))
    assert Asked.read(tmp_path / "3").events == "s3://mine/tensorboard/small/digits/net/3"
