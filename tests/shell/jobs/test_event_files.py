"""TensorBoard's event files of a job: which rank finds the folder, and their copy in S3."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
from stubbed_jobs import change
from test_task_jobs import job, run, s3, task  # noqa: F401 - a fixture

SHOWS = "import os; print('folder', os.environ.get('GPUCLUSTER_TENSORBOARD'), flush=True)"
WRITES = """
import os, pathlib
folder = pathlib.Path(os.environ["GPUCLUSTER_TENSORBOARD"])
folder.mkdir(exist_ok=True)
(folder / "events.out.tfevents.1764400000.train-1.7.0").write_bytes(b"loss")
"""
PLACE = "s3://mine/tensorboard/small/digits/small"


def test_only_the_first_rank_finds_the_folder(tmp_path: Path) -> None:
    given = job(tmp_path, task(tmp_path), 0, 0, command=("python", "-c", SHOWS), ntasks_per_node=2)
    code, _, log, _ = run(given, tmp_path)
    assert code == 0, log
    assert f"[0 train-1] folder {task(tmp_path)['state']}/tensorboard" in log
    assert "[1 train-1] folder None" in log
    assert list(Path(task(tmp_path)["state"]).iterdir()) == []


def in_s3(tmp_path: Path, s3: dict[str, str], place: str, command: str) -> dict:  # noqa: F811
    given = job(tmp_path, task(tmp_path, events=place), 0, 0, command=("python", "-c", command))
    change(tmp_path, "ourselves.py", "/usr/bin/python3", sys.executable)  # a node's Python has boto3
    given["env"] |= s3
    return given


def test_event_files_are_in_s3_when_the_job_has_ended(tmp_path: Path, s3: dict[str, str]) -> None:  # noqa: F811
    code, result, log, _ = run(in_s3(tmp_path, s3, PLACE, WRITES), tmp_path)
    assert (code, result["tensorboard"]) == (0, {"s3": PLACE, "files": 1, "problem": None}), log
    client = boto3.client("s3", endpoint_url=s3["AWS_ENDPOINT_URL"], region_name="us-east-1",
                          aws_access_key_id="x", aws_secret_access_key="x")  # fmt: skip
    key = "tensorboard/small/digits/small/events.out.tfevents.1764400000.train-1.7.0"
    assert client.get_object(Bucket="mine", Key=key)["Body"].read() == b"loss"
    assert "state" not in result


def test_the_result_is_written_before_the_last_copy(tmp_path: Path, s3: dict[str, str]) -> None:  # noqa: F811
    """Slurm kills a cancelled job 10 s later, also while S3 does not answer."""
    given = in_s3(tmp_path, s3, PLACE, WRITES)
    keep = "(self._kept.parent / 'early.json').write_bytes((self._kept.parent / 'result.json').read_bytes())"
    waits = "            self._process.wait(limit_s)"
    change(tmp_path, "task/copying.py", waits, f"            {keep}\n{waits}")
    code, result, log, _ = run(given, tmp_path)
    early = json.loads((tmp_path / "job/early.json").read_text())
    assert code == 0 and early["tensorboard"] == {"s3": PLACE, "problem": "the last copy was not finished"}, log
    assert early["exit_code"] == 0 and result["tensorboard"]["problem"] is None


def test_a_job_without_event_files_has_nothing_to_tell(tmp_path: Path, s3: dict[str, str]) -> None:  # noqa: F811
    code, result, log, _ = run(in_s3(tmp_path, s3, "s3://no-such-bucket-1/x", "pass"), tmp_path)
    assert code == 0 and "tensorboard" not in result, log
    assert "warning" not in log


def test_a_bucket_that_refuses_them_causes_only_a_warning(tmp_path: Path, s3: dict[str, str]) -> None:  # noqa: F811
    code, result, log, _ = run(in_s3(tmp_path, s3, "s3://no-such-bucket-1/x", WRITES), tmp_path)
    assert code == 0 and result["tensorboard"]["problem"].startswith("s3://no-such-bucket-1/x: no such bucket")
    assert "[tensorboard] warning: event files are not copied to S3: " in log
