"""`gpucluster init --from`: what it prints, where it writes, what it asks of the machine."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.cli import main
from gpucluster.cli.frame import converting
from gpucluster.cluster import credentials
from gpucluster.config import load
from tests.unit.parallelcluster.files import FOLDER, small

SOURCE = FOLDER / "15.yaml"


@pytest.fixture(autouse=True)
def without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)


def test_it_writes_a_cluster_file_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--from", str(SOURCE)]) == 0
    out, err = capsys.readouterr()
    assert out == "cluster.yaml\n"
    assert err.startswith(
        f"subnets not looked up: no AWS credentials: Unable to locate credentials\nkeys of {SOURCE}: 5"
    )
    assert "check: capacity_gib of Lustre is 12000" in err
    assert err.endswith("next: gpucluster -c cluster.yaml plan\n")
    assert load("cluster.yaml").partitions[0].name == "queue1"


def test_it_reads_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOURCE.read_bytes())))
    assert main(["init", "--from", "-", "other.yaml"]) == 0
    assert capsys.readouterr().out == "other.yaml\n"
    assert load("other.yaml").name == "GpuCluster"


def test_it_overwrites_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("cluster.yaml").write_text("mine")
    assert main(["init", "--from", str(SOURCE)]) == 2
    assert capsys.readouterr().err == (
        f"error: cluster.yaml already exists\nhint: name another: gpucluster init --from {SOURCE} my-cluster.yaml\n"
    )
    assert Path("cluster.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", "none.yaml"], "error: none.yaml: no such file"),
        (["--from", "."], "error: . cannot be read: Is a directory"),
        (
            ["--from", "x", "--example", "g5-spot"],
            "--from converts a file",
        ),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text(small(Region=None))
    assert main(["init", "--from", "a.yaml"]) == 2
    assert "AWS_DEFAULT_REGION=us-east-1 gpucluster init --from a.yaml" in capsys.readouterr().err
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert main(["init", "--from", "a.yaml"]) == 0
    assert load("cluster.yaml").region == "eu-north-1"


class Account:
    """A session whose EC2 answers as botocore's model says it does."""

    def __init__(self, answer: dict[str, Any] | None, error: str = "") -> None:
        self.answer, self.error = answer, error

    def client(self, service: str, **_: Any) -> Any:
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        made = boto3.client(service, region_name="us-east-1", **keys)
        stub = Stubber(made)
        if self.answer is None:
            stub.add_client_error("describe_subnets", self.error)
        else:
            asked = {"Filters": [{"Name": "subnet-id", "Values": ["subnet-01234567"]}]}
            stub.add_response("describe_subnets", self.answer, asked)
        stub.activate()
        return made


SUBNET = {"SubnetId": "subnet-01234567", "VpcId": "vpc-01234567", "AvailabilityZone": "us-east-1c"}


@pytest.mark.parametrize(
    ("account", "vpc"),
    [
        (Account({"Subnets": [SUBNET]}), "vpc-01234567"),
        (Account({"Subnets": []}), None),
        (Account(None, "UnauthorizedOperation"), None),
    ],
    ids=["known", "of another account", "not allowed"],
)
def test_the_subnets_vpc_is_looked_up(account: Account, vpc: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "session", lambda region: account)
    Path("a.yaml").write_text(small())
    assert main(["init", "--from", "a.yaml"]) == 0
    assert load("cluster.yaml").network.vpc_id == vpc


def test_no_subnet_no_question() -> None:
    assert converting.look_up("us-east-1", []) == {}
