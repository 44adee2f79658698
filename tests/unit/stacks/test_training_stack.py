"""The role and the bucket for SageMaker, through app.py as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def synthesized(folder: Path, **context: str) -> subprocess.CompletedProcess[str]:
    values = {"CDK_OUTDIR": str(folder), "CDK_CONTEXT_JSON": json.dumps(context), "CDK_VALIDATION": "false"}
    environment = {**os.environ, **values, "GPUCLUSTER_CONFIG": "none.yaml"}
    argv = [sys.executable, "app.py"]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("training")
    done = synthesized(folder, training="us-west-2", reads="s3://data/imagenet s3://whole")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads((folder / "GpuClusterTraining.template.json").read_text())
    return found


def test_its_outputs_are_the_keys_of_sagemaker_yaml(template: dict[str, Any]) -> None:
    assert template["Outputs"].keys() == {"RoleArn", "BucketName"}


def test_the_role_writes_below_one_folder_alone(template: dict[str, Any]) -> None:
    kinds = {each["Type"]: each["Properties"] for each in template["Resources"].values()}
    statements = kinds["AWS::IAM::Policy"]["PolicyDocument"]["Statement"]
    (write,) = [each for each in statements if "s3:PutObject" in each["Action"]]
    assert json.dumps(write["Resource"]).count("/gpucluster/*") == 1
    trust = kinds["AWS::IAM::Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert [each["Principal"] for each in trust] == [{"Service": "sagemaker.amazonaws.com"}]
    assert "ec2:" not in json.dumps(statements), "only with -c vpc=yes"


def test_the_role_may_make_the_group_of_the_logs(template: dict[str, Any]) -> None:
    """In policies their ARNs end with :* ("CloudWatch Logs resources and operations" in CloudWatch's manual)."""
    (policy,) = [each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Policy"]
    logs = [each for each in policy["PolicyDocument"]["Statement"] if "logs:" in json.dumps(each["Action"])]
    assert {action for each in logs for action in each["Action"]} == {
        f"logs:{action}" for action in ("CreateLogGroup", "CreateLogStream", "DescribeLogStreams", "PutLogEvents")
    }
    for each in logs:
        assert each["Resource"]["Fn::Join"][1][-1].endswith(":log-group:/aws/sagemaker/TrainingJobs:*")


def test_an_address_that_is_none(tmp_path: Path) -> None:
    done = synthesized(tmp_path, training="us-west-2", reads="data/imagenet")
    assert done.returncode == 1
    assert done.stderr.startswith("error: -c reads: must be addresses such as s3://bucket/prefix")


def test_every_finding_of_cdk_nag_has_its_reason() -> None:
    argv = [sys.executable, "tests/nag_app.py", "--training"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["training"]
    assert found["left"] == []
    assert len(found["raw"]) == 7, "as many as stacks/training.py has rows"
