"""The verbs for training jobs with the local cloud's APIs, from `submit` to `fetch`. Nothing boots: jobs complete
without running their programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cli import main
from gpucluster.sagemaker.following import logs

ROLE = "arn:aws:iam::123456789012:role/trainer-of-verbs"
BUCKET = "training-verbs"
TARGET = f"region: us-east-1\nrole_arn: {ROLE}\nbucket: {BUCKET}\ninstance_type: ml.g5.12xlarge\n"
TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
MAY = {"Effect": "Allow", "Action": ["s3:*", "logs:*", "cloudwatch:PutMetricData"], "Resource": "*"}
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def trainer(control_plane: Any) -> Iterator[Any]:
    iam, document = control_plane.client("iam"), {"Version": "2012-10-17"}
    trust, may = ({**document, "Statement": [each]} for each in (TRUST, MAY))
    iam.create_role(RoleName="trainer-of-verbs", AssumeRolePolicyDocument=json.dumps(trust))
    iam.put_role_policy(RoleName="trainer-of-verbs", PolicyName="may", PolicyDocument=json.dumps(may))
    control_plane.client("s3").create_bucket(Bucket=BUCKET)
    yield control_plane
    iam.delete_role_policy(RoleName="trainer-of-verbs", PolicyName="may")
    iam.delete_role(RoleName="trainer-of-verbs")


@pytest.fixture
def verb(trainer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verb:
    (tmp_path / "sagemaker.yaml").write_text(TARGET)
    (tmp_path / "train.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ENDPOINT_URL": trainer.endpoint_url,
        "AWS_ACCESS_KEY_ID": "localcloud",
        "AWS_SECRET_ACCESS_KEY": trainer.secret,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(logs, "POLL_S", 0.5)
    monkeypatch.setattr(logs, "JITTER_S", 0.0)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def submitted(verb: Verb, *words: str) -> dict[str, Any]:
    given = ("--launcher", "torchrun", "--framework", "torch", "--nodes", "2", *words, "--", "python", "train.py")
    code, out, err = verb("submit", "--on", "sagemaker", *given)
    assert code == 0, err
    line: dict[str, Any] = json.loads(out.splitlines()[-1])
    return line


def test_a_job_from_its_submission_to_its_files(verb: Verb, tmp_path: Path) -> None:
    line = submitted(verb, "--name", "digits", "--follow")
    name = line["job_id"]
    assert (line["state"], line["reason"]) == ("COMPLETED", "")
    (row,) = [each for each in json.loads(verb("jobs", "--json")[1]) if each["job_id"] == name]
    assert (row["name"], row["state"], row["nodes"]) == ("digits", "COMPLETED", 2)
    assert verb("why", name)[1].splitlines()[0] == f"job {name} completed"
    code, out, err = verb("fetch", name)
    assert code == 0, err
    assert (tmp_path / name / "input/gpucluster.tar.gz").exists()
    assert json.loads((tmp_path / name / "result.json").read_text())["TrainingJobStatus"] == "Completed"
    assert verb("logs", name)[0] == 0
    assert json.loads(verb("metrics", name, "--json")[1])["metrics"] == {}
    costs = json.loads(verb("cost", "--by", "job", "--json")[1])["sagemaker"]["rows"]
    assert (name, "COMPLETED") in [(each["job"], each["state"]) for each in costs]
    assert verb("cancel", name) == (0, '{"cancelled": []}\n', f"job {name} has already ended\n")


def test_a_job_that_is_not_there(verb: Verb) -> None:
    code, _, err = verb("why", "digits-20200101-000000")
    assert code == 2
    assert "SageMaker has no training job digits-20200101-000000 in us-east-1" in err


def test_settings_are_compared(verb: Verb) -> None:
    words = ("--targets", "sagemaker", "--nodes", "1,2", "--repeats", "1", "--", "python", "train.py")
    code, out, err = verb("bench", *words)
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])["settings"]
    assert [(each["target"], each["nodes"], each["runs"][0]["state"]) for each in found] == [
        ("sagemaker", 1, "COMPLETED"),
        ("sagemaker", 2, "COMPLETED"),
    ]


def test_a_sweep_and_its_results(verb: Verb) -> None:
    line = submitted(verb, "--name", "swept", "--sweep", "lr=0.1,0.01", "--max-parallel", "1", "--follow")
    code, out, err = verb("results", line["job_id"], "--json")
    assert code == 0, err
    found = [(each["job_id"], each["parameters"], each["state"]) for each in json.loads(out)]
    assert found == [(line["jobs"][0], {"lr": "0.1"}, "completed"), (line["jobs"][1], {"lr": "0.01"}, "completed")]
    again = submitted(verb, "--name", "swept", "--sweep", "lr=0.1,0.01")
    assert again["jobs"] == line["jobs"]  # both have succeeded
