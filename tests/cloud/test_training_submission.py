"""`submit --on sagemaker` against the local cloud, which refuses jobs in AWS's words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cli import main
from gpucluster.job.task import own_name
from gpucluster.sagemaker import tasks

BUCKET = "training-submissions"
ROLE = "arn:aws:iam::123456789012:role/{}"
Submit = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def account(control_plane: Any) -> Any:
    control_plane.client("s3").create_bucket(Bucket=BUCKET)
    iam = control_plane.client("iam")
    for name, service in (("submission-trains", "sagemaker"), ("submission-boots", "ec2")):
        principal = {"Service": f"{service}.amazonaws.com"}
        statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": [statement]}))
    allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    iam.put_role_policy(RoleName="submission-trains", PolicyName="data", PolicyDocument=policy)
    return control_plane


@pytest.fixture
def submit(account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Submit:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "job.yaml").write_text("name: train\ntarget: sagemaker\ntime: 1:00:00\ncommand: [python, train.py]\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "localcloud")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.secret)

    def call(role: str, instance_type: str = "ml.m5.xlarge", bucket: str = BUCKET) -> tuple[int, str, str]:
        where = {"region": "us-east-1", "role_arn": ROLE.format(role), "bucket": bucket, "instance_type": instance_type}
        (tmp_path / "sagemaker.yaml").write_text("".join(f"{key}: {value}\n" for key, value in where.items()))
        code = main(["submit", "job.yaml"])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("asked", "said", "hint"),
    [
        (("nobody",), "Could not assume role arn:aws:iam::123456789012:role/nobody", "trust sagemaker.amazonaws.com"),
        (("submission-boots",), "Could not assume role", "trust sagemaker.amazonaws.com"),
        (("submission-trains", "ml.m5.xlarge", "no-such-bucket-of-ours"), "NoSuchBucket", "create the bucket"),
    ],
)
def test_a_refused_job_leaves_nothing(
    submit: Submit, account: Any, asked: tuple[str, ...], said: str, hint: str
) -> None:
    code, out, err = submit(*asked)
    assert (code, out) == (3, "")
    assert said in err and hint in err
    assert account.client("s3").list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    assert account.client("sagemaker").list_training_jobs(NameContains="train-2")["TrainingJobSummaries"] == []


def test_a_job_is_found_again_by_its_tags(submit: Submit, account: Any, tmp_path: Path) -> None:
    """What becomes of it does not matter: no host boots here."""
    code, out, err = submit("submission-trains")
    assert code == 0, err
    name = json.loads(out.splitlines()[-1])["job_id"]
    found = tasks.newest(account.client("sagemaker"), own_name(tmp_path.name, "default"), "train")
    assert found is not None
    assert (found.job, len(found.key)) == (name, 64)
    key = f"gpucluster/{name}/input/gpucluster.tar.gz"
    assert account.client("s3").head_object(Bucket=BUCKET, Key=key)["ContentLength"] > 100_000
