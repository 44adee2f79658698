"""The words for AWS's errors that node programs show to users, and the times in AWS's answers."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from botocore.utils import parse_timestamp
from gpucluster_node import aws


@pytest.mark.parametrize("code", ["RequestExpired", "ExpiredToken", "ExpiredTokenException"])
def test_expired_credentials_are_named_in_words(code: str) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "Request has expired."}}, "RunInstances")
    words = "the credentials of this machine's role have expired, or its clock is wrong: Request has expired."
    assert aws.brief(error) == f"{code}: {words}"


def test_other_errors_keep_their_own_words() -> None:
    error = ClientError({"Error": {"Code": "Unsupported", "Message": "not here"}}, "RunInstances")
    assert aws.brief(error) == "Unsupported: not here"


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-23T19:48:28.000Z",
        "2026-11-23T19:48:28Z",
        "2026-11-23T19:48:28+00:00",
        "Mon, 23 Nov 2026 19:48:28 GMT",
        1795463308,
        1795463308.0,
        "1795463308",
    ],
)
def test_times_are_those_that_botocore_reads(value: str | float) -> None:
    """Errors of EC2, of Route 53, of S3's headers and of services with JSON."""
    assert aws.time_of(value) == parse_timestamp(value) == datetime(2026, 11, 23, 19, 48, 28, tzinfo=UTC)


def test_a_text_that_is_no_time_is_botocores_error() -> None:
    with pytest.raises(ValueError, match="Invalid timestamp"):
        aws.time_of("never")


def test_clients_read_times_in_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    parsers = aws.client("ec2")._endpoint._response_parser_factory
    assert parsers.create_parser("ec2")._timestamp_parser is aws.time_of


def test_only_s3_loads_boto3() -> None:
    code = """if True:
        import sys
        from gpucluster_node.power import resume
        from gpucluster_node.aws import client
        client("ec2"), client("ssm"), client("route53")
        assert "boto3" not in sys.modules
        assert client("s3").upload_file
    """
    environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
    subprocess.run([sys.executable, "-c", code], cwd=Path(aws.__file__).parents[1], env=environment, check=True)
