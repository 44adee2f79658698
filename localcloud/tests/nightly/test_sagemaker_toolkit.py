"""AWS's own sagemaker-training from PyPI runs a script in the /opt/ml of the local cloud's training jobs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.machines import image
from localcloud.testing import patience
from localcloud.tests.booted import BootedCloud, booted

SUBJECTS = ["localcloud/training/*.py", "localcloud/machines/nspawn.py", "localcloud/machines/rootfs.py"]
COVERED_BY = "test_training_jobs.py, with programs of its own; test_training_parts.py has the files of /opt/ml"
TOOLKIT = "sagemaker-training==5.1.4"
PYTHON = "/opt/wheels/python/bin/python3"  # where guests find the folder of `up --wheels`
SCRIPT = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
options = parser.parse_args()
if options.epochs == 0:
    raise ValueError("no epochs")
found = {"hosts": json.loads(os.environ["SM_HOSTS"]), "epochs": options.epochs}
found["files"] = sorted(os.listdir(options.train))
pathlib.Path(options.model_dir, os.environ["SM_CURRENT_HOST"]).write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootedCloud]:
    """Guests have the toolkit for the image's Python 3.11: it brings a library in C."""
    folder = tmp_path_factory.mktemp("toolkit")
    (interpreter,) = (image.build() / "opt/python").glob("cpython-3.11*.tar.gz")
    subprocess.run(["tar", "-xzf", interpreter, "-C", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "python/bin/python3"), "install", "--quiet"]
    subprocess.run([*pip, "--break-system-packages", "--no-compile", TOOLKIT], check=True, timeout=600)
    with booted("toolkit", 40000, "--wheels", str(folder)) as cloud:
        _prepare(cloud)
        yield cloud


def _prepare(cloud: BootedCloud) -> None:
    iam, s3 = cloud.client("iam"), cloud.client("s3")
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    allowed = {"Effect": "Allow", "Action": ["s3:*", "logs:*"], "Resource": "*"}
    document = {"Version": "2012-10-17"}
    iam.create_role(RoleName="trainer", AssumeRolePolicyDocument=json.dumps(document | {"Statement": [trust]}))
    iam.put_role_policy(
        RoleName="trainer", PolicyName="p", PolicyDocument=json.dumps(document | {"Statement": [allowed]})
    )
    s3.create_bucket(Bucket="jobs")
    s3.put_object(Bucket="jobs", Key="in/a.csv", Body=b"1,2\n")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(SCRIPT)
        archive.addfile(entry, io.BytesIO(SCRIPT.encode()))
    s3.put_object(Bucket="jobs", Key="source/sourcedir.tar.gz", Body=packed.getvalue())


def run(cloud: BootedCloud, name: str, **parameters: Any) -> dict[str, Any]:
    sagemaker = cloud.client("sagemaker")
    toolkit = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": "s3://jobs/source/sourcedir.tar.gz",
        "sagemaker_region": "us-east-1",
    }
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://jobs/in/"}
    sagemaker.create_training_job(
        TrainingJobName=name,
        RoleArn="arn:aws:iam::123456789012:role/trainer",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/x:1", "TrainingInputMode": "File",
            "ContainerEntrypoint": [PYTHON, "-m", "sagemaker_training.cli.train"],
        },
        HyperParameters={key: json.dumps(value) for key, value in (toolkit | parameters).items()},
        InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
        OutputDataConfig={"S3OutputPath": "s3://jobs/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 300},
    )  # fmt: skip

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
        return found if found["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    found: dict[str, Any] = patience.wait_for(f"the end of {name}", ended, 120)
    return found


def test_the_toolkit_runs_a_script_on_both_hosts(cloud: BootedCloud) -> None:
    """It downloads the script with the role's credentials, and waits for both names."""
    ended = run(cloud, "good", epochs=3)
    assert ended["TrainingJobStatus"] == "Completed", ended
    content = cloud.client("s3").get_object(Bucket="jobs", Key="out/good/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        written = {name: json.load(archive.extractfile(name)) for name in archive.getnames()}  # type: ignore[arg-type]
    hosts = ["algo-1", "algo-2"]
    assert written == {host: {"hosts": hosts, "files": ["a.csv"], "epochs": 3} for host in hosts}


def test_the_toolkits_words_become_the_reason(cloud: BootedCloud) -> None:
    ended = run(cloud, "bad", epochs=0)
    assert ended["TrainingJobStatus"] == "Failed"
    assert ended["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\n"), ended
    assert 'Command "/opt/wheels/python/bin/python3 -- train.py --epochs 0"' in ended["FailureReason"].replace(
        f"{Path(PYTHON)}.11", PYTHON
    )
