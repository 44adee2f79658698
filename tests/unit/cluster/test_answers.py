"""Errors of AWS, of networks between, and of wrong clocks, as botocore reports real HTTP answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import boto3
import pytest

from gpucluster.cluster import api_errors, aws
from gpucluster.config import loads
from gpucluster.errors import AccessError, AwsError

CONFIG = loads("name: T\nregion: us-east-1\npartitions: [{name: t, instance_types: [g5.xlarge], max_nodes: 1}]\n")
PAGE = b"<html><head><title>Proxy Authentication Required</title></head><body>no<br></body></html>"
LATE = "Signature expired: 20261129T000000Z is now earlier than 20261128T235500Z (20261129T000000Z - 5 min.)"


class Answer(BaseHTTPRequestHandler):
    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    content_type: ClassVar[str] = "text/html; charset=utf-8"
    ahead: ClassVar[timedelta] = timedelta()
    """Seconds of this machine's clock."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response_only(self.status)
        self.send_header("Date", format_datetime(datetime.now(UTC) - self.ahead, usegmt=True))
        self.send_header("Content-Type", self.content_type)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[aws.Aws]:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    session = boto3.Session(region_name="us-east-1", **keys)
    yield aws.Aws(CONFIG, session, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


def answer(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, **more: Any) -> None:
    for name, value in {"status": status, "body": body, **more}.items():
        monkeypatch.setattr(Answer, name, value)


CALLS = {
    "cloudformation": ("describe_stacks", {}),  # the protocol query
    "ec2": ("describe_instances", {}),  # ec2
    "ssm": ("get_parameter", {"Name": "x"}),  # json
    "s3": ("list_buckets", {}),  # rest-xml
    "fsx": ("describe_file_systems", {}),
}


# botocore takes S3's status 200 without XML for an error 500 (handlers.py, _handle_200_error)
@pytest.mark.parametrize(
    ("service", "status"),
    [(service, status) for service in CALLS for status in (200, 302, 403, 407) if (service, status) != ("s3", 200)],
)
def test_a_web_page_of_a_proxy_is_named(
    cloud: aws.Aws, monkeypatch: pytest.MonkeyPatch, service: str, status: int
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.corp:3128")
    answer(monkeypatch, status, PAGE)
    operation, parameters = CALLS[service]
    with pytest.raises(AwsError) as caught, aws.aws_errors():
        getattr(cloud.client(service), operation)(**parameters)
    assert f": HTTP {status} with a web page (Proxy Authentication Required) instead of" in caught.value.message
    assert str(caught.value.hint).startswith("the proxy http://proxy.corp:3128 (HTTPS_PROXY) or a gateway")
    assert "secret" not in caught.value.render()


@pytest.mark.parametrize("service", CALLS)
def test_an_empty_answer_is_no_bug_of_ours(cloud: aws.Aws, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    answer(monkeypatch, 407, b"", content_type="text/plain")
    operation, parameters = CALLS[service]
    with pytest.raises(AwsError) as caught, aws.aws_errors():
        getattr(cloud.client(service), operation)(**parameters)
    assert "a proxy or a gateway of your network" in str(caught.value.hint) or "407" in caught.value.message


def refused(code: str, message: str) -> bytes:
    return f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>".encode()


@pytest.mark.parametrize(
    ("code", "message", "ahead", "said"),
    [
        ("SignatureDoesNotMatch", LATE, timedelta(days=1), "clock is 1440 minutes ahead of AWS's"),
        ("SignatureDoesNotMatch", "Signature not yet current: x", timedelta(hours=-1), "60 minutes behind AWS's"),
        ("RequestExpired", "Request has expired.", timedelta(minutes=30), "30 minutes ahead of AWS's"),
        ("InvalidSignatureException", "Signature expired: x", timedelta(), "clock is probably wrong"),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", timedelta(hours=9),
         "540 minutes"),
        ("SignatureDoesNotMatch", "The request signature we calculated does not match", timedelta(), "log in again"),
        ("ExpiredToken", "The security token included in the request is expired", timedelta(), "log in again"),
    ],
)  # fmt: skip
def test_a_wrong_clock_is_told_from_wrong_credentials(
    cloud: aws.Aws, monkeypatch: pytest.MonkeyPatch, code: str, message: str, ahead: timedelta, said: str
) -> None:
    answer(monkeypatch, 403, refused(code, message), content_type="text/xml", ahead=ahead)
    with pytest.raises(AccessError) as caught:
        cloud.stack_status()
    assert said in str(caught.value.hint)
    assert ("timedatectl" in str(caught.value.hint)) == ("log in" not in said)


def test_the_errors_of_a_wrong_clock_are_about_the_caller() -> None:
    assert {"RequestTimeTooSkewed", "RequestExpired", "InvalidSignatureException"} < set(api_errors.CREDENTIALS)
