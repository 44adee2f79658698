"""AWS's names of its APIs: who resolves them, and requests that boto3 sends to them over TLS and through a proxy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from werkzeug import Request, Response

from localcloud.api import public_endpoints, server
from localcloud.guests import public_names
from localcloud.identity import authority
from localcloud.protocol import calls, signatures
from localcloud.testing.connect_proxy import ConnectProxy

KEYS = {"aws_access_key_id": "localcloud", "aws_secret_access_key": "secret"}


@pytest.fixture
def names() -> Iterator[None]:
    public_names.served.set()
    yield
    public_names.served.clear()


@pytest.mark.parametrize(
    "name",
    [
        "ssm.us-east-1.amazonaws.com",
        "route53.amazonaws.com",
        "s3.us-east-1.amazonaws.com",
        "api.sagemaker.eu-west-1.amazonaws.com",
        "a.bucket.s3.us-gov-west-1.amazonaws.com",
        "bucket.s3.amazonaws.com",
        public_names.WAITS_HOST,
    ],
)
def test_names_of_apis_lead_to_the_internet(names: None, name: str) -> None:
    assert public_names.resolve(name, "A") == ["198.51.100.53"]
    assert public_names.resolve(name, "AAAA") == []


@pytest.mark.parametrize(
    "name",
    [
        "fs-01.efs.us-east-1.amazonaws.com",
        "db.c01.us-east-1.rds.amazonaws.com",
        "amazonaws.com",
        "ssm.us-east-1.amazonaws.com.evil.example",
        "deb.debian.org",
    ],
)
def test_other_names_are_not_answered(names: None, name: str) -> None:
    assert public_names.resolve(name, "A") is None


def test_without_the_option_no_name_is_answered() -> None:
    assert public_names.resolve("ssm.us-east-1.amazonaws.com", "A") is None


@pytest.fixture
def through(tmp_path: Path) -> Iterator[tuple[dict[str, Any], ConnectProxy, list[str]]]:
    """What a client of boto3 needs, the proxy, and the requests that moto would see; their signatures are valid."""
    arrived: list[str] = []

    @Request.application
    def application(request: Request) -> Response:
        environ = request.environ
        signatures.verify(signatures.as_sent(environ), lambda key: signatures.Held("secret"))
        call = calls.identify(environ)
        arrived.append(f"{call.service}:{call.action} {request.host} {request.path}")
        return Response("{}" if call.service == "ssm" else "", headers={"ETag": "x"})

    (tmp_path / "authority.pem").write_text(authority.web().certificate)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ConnectProxy(lambda host, port: listener.getsockname()) as proxy,
    ):
        api = server.serve(public_endpoints.Renamed(application), listener, public_endpoints.context())
        config = Config(proxies={"https": proxy.url}, retries={"total_max_attempts": 1})
        yield {"verify": str(tmp_path / "authority.pem"), "config": config, **KEYS}, proxy, arrived
        api.shutdown()
        api.server_close()


def test_sdks_requests_arrive_as_under_the_apis_address(
    through: tuple[dict[str, Any], ConnectProxy, list[str]],
) -> None:
    client, proxy, arrived = through
    boto3.client("ssm", region_name="us-east-1", **client).get_parameter(Name="x")
    store = boto3.client("s3", region_name="us-east-1", **client)
    store.put_object(Bucket="bucket", Key="a b/ü", Body=b"x")
    assert arrived == [
        "ssm:GetParameter 169.254.169.251 /",
        "s3:PutObject 169.254.169.251 /bucket/a b/ü",
    ]
    assert proxy.hosts == ["ssm.us-east-1.amazonaws.com:443", "bucket.s3.amazonaws.com:443"]


def test_a_client_that_sends_nothing_does_not_keep_the_others_waiting(
    through: tuple[dict[str, Any], ConnectProxy, list[str]],
) -> None:
    client, proxy, arrived = through
    with socket.create_connection(proxy.target("silent", 443)):
        boto3.client("ssm", region_name="us-east-1", **client).get_parameter(Name="x")
    assert arrived == ["ssm:GetParameter 169.254.169.251 /"]


def test_python_3_13_trusts_the_certificates(
    through: tuple[dict[str, Any], ConnectProxy, list[str]],
) -> None:
    """Its default has VERIFY_X509_STRICT (What's New In Python 3.13, ssl); the guests have that version."""
    _, proxy, _ = through
    context = ssl.create_default_context(cadata=authority.web().certificate)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(proxy.target("", 443)) as connection,
        context.wrap_socket(connection, server_hostname="s3.us-east-1.amazonaws.com") as secured,
    ):
        assert secured.version() == "TLSv1.3"
