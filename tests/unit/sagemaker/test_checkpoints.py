"""Checkpoints are compared with S3 at the end of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpucluster_job.sagemaker import checkpoints, ours

HAS_ALL = '{"rank-0/a.pt": 3, "rank-1/a.pt": 4}'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for rank, data in enumerate(("123", "1234")):
        path = tmp_path / "checkpoints" / f"rank-{rank}" / "a.pt"
        path.parent.mkdir(parents=True)
        path.write_text(data, encoding="utf-8")
    yield tmp_path / "checkpoints"


def environment(tmp_path: Path, says: str, code: int = 0) -> dict[str, str]:
    """A `python3` whose boto3 lists these objects."""
    library = tmp_path / "library"
    library.mkdir(exist_ok=True)
    (library / "boto3.py").write_text(
        f"""
class Client:
    def get_paginator(self, name):
        assert name == "list_objects_v2"
        return self
    def paginate(self, Bucket, Prefix):
        assert (Bucket, Prefix) == ("data", "digits/state/")
        if {code}:
            raise PermissionError("AccessDenied")
        return [{{"Contents": [{{"Key": Prefix + name, "Size": size}} for name, size in {says}.items()]}}]
client = lambda name: Client()
""",
        encoding="utf-8",
    )
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return {checkpoints.URI: "s3://data/digits/state", "PATH": path, "PYTHONPATH": str(library)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"TRAINING_JOB_ARN": "arn:aws-cn:sagemaker:cn-north-1:123456789012:training-job/a"}, "cn-north-1"),
        ({"AWS_REGION": "eu-west-1", "TRAINING_JOB_ARN": ""}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2", "AWS_REGION": "eu-west-1"}, "eu-west-2"),
        ({}, None),
    ],
)
def test_s3_is_asked_in_the_region_of_the_job(tmp_path: Path, given: dict[str, str], expected: str | None) -> None:
    there = environment(tmp_path, HAS_ALL)
    (tmp_path / "library" / "boto3.py").write_text(
        "import os\nraise PermissionError(os.environ.get('AWS_DEFAULT_REGION'))\n", encoding="utf-8"
    )
    with pytest.raises(checkpoints.Unknown, match=str(expected)):
        checkpoints.listed(there[checkpoints.URI], {**there, **given})


def said(folder: Path, environment: Mapping[str, str]) -> list[str]:
    return list(checkpoints.compared(folder, environment, stopped=True))


def test_a_complete_copy(tmp_path: Path, folder: Path) -> None:
    assert said(folder, environment(tmp_path, HAS_ALL)) == [
        f"[sagemaker] s3://data/digits/state has all 2 files of {folder}"
    ]


@pytest.mark.parametrize("copied", ['{"rank-0/a.pt": 3}', '{"rank-0/a.pt": 3, "rank-1/a.pt": 5}'])
def test_a_copy_that_has_stopped(tmp_path: Path, folder: Path, copied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "COMPARE_S", 0.0)
    (line,) = said(folder, environment(tmp_path, copied))
    assert line.startswith("warning: s3://data/digits/state lacks 1 of the 2 files")
    assert "another size: rank-1/a.pt; a run that resumes there" in line


def test_a_copy_that_is_late() -> None:
    answers: list[dict[str, int]] = [{}, {"a": 1}]
    assert checkpoints.differences({"a": 1}, lambda: answers.pop(0), 5.0, pause_s=0.01) == []
    assert answers == []


def test_no_access(tmp_path: Path, folder: Path) -> None:
    (line,) = said(folder, environment(tmp_path, "{}", code=1))
    assert (
        line == f"[sagemaker] {folder} could not be compared with s3://data/digits/state: PermissionError: AccessDenied"
    )


def test_a_job_without_checkpoints(tmp_path: Path, folder: Path) -> None:
    assert said(folder, {}) == []
    assert said(tmp_path / "none", environment(tmp_path, "{}")) == []


def test_only_what_this_run_has_written_counts(folder: Path) -> None:
    os.utime(folder / "rank-0" / "a.pt", (100, 100))  # as restored before the start
    assert checkpoints.written(folder, since=200) == ["rank-1/a.pt"]


def test_a_name_that_two_hosts_write_is_named() -> None:
    (line,) = checkpoints.twice({"algo-1": ["a.pt", "b.pt"], "algo-2": ["b.pt", "c.pt"], "algo-3": ["c.pt"]})
    assert line.startswith("warning: algo-1 and algo-2 have each written b.pt and 1 more into the checkpoints")
    assert list(checkpoints.twice({"algo-1": ["rank-0"], "algo-2": ["rank-1"]})) == []


def test_folders_of_outputs_are_those_below_opt_ml() -> None:
    given = {
        "GPUCLUSTER_OUTPUT_SHARDS": "/opt/ml/checkpoints/outputs/shards",
        "GPUCLUSTER_OUTPUT_X": "/fsx/x",
        "A": "/",
    }
    assert ours.outputs(given) == ["checkpoints/outputs/shards"]
