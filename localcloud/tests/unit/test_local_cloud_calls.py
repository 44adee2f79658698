"""Identifying API calls, and reading answers of every protocol."""

from __future__ import annotations

import io
from typing import Any

import pytest

from localcloud.protocol import answers
from localcloud.protocol.calls import Call, identify

SIGNED = "AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0"


def environ(
    service: str, *, method: str = "POST", path: str = "/", body: bytes = b"", **headers: str
) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": headers.pop("query", ""),
        "HTTP_AUTHORIZATION": SIGNED.format(key="ASIA1", region="eu-west-1", service=service),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "HTTP_HOST": "127.0.0.1",
        **headers,
    }


FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8"}
ZONE = "/2013-04-01/hostedzone/Z1/rrset"


@pytest.mark.parametrize(
    ("request_environ", "service", "action"),
    [
        (environ("ec2", body=b"Action=RunInstances&MinCount=1", **FORM), "ec2", "RunInstances"),
        (environ("ssm", body=b"{}", HTTP_X_AMZ_TARGET="AmazonSSM.GetParameter"), "ssm", "GetParameter"),
        (environ("s3", method="GET", path="/bucket/key"), "s3", "GetObject"),
        (environ("s3", method="PUT", path="/bucket/a/b"), "s3", "PutObject"),
        (environ("s3", method="GET", path="/bucket", query="list-type=2"), "s3", "ListObjectsV2"),
        (environ("route53", path=ZONE), "route53", "ChangeResourceRecordSets"),
        (environ("monitoring", path="/service/GraniteServiceVersion20100801/operation/PutMetricData"),
         "monitoring", "PutMetricData"),
    ],
)  # fmt: skip
def test_service_and_action(request_environ: dict[str, Any], service: str, action: str) -> None:
    call = identify(request_environ)
    assert (call.service, call.action, call.region, call.access_key_id) == (service, action, "eu-west-1", "ASIA1")


def test_the_body_can_be_read_again() -> None:
    request_environ = environ("ec2", body=b"Action=DescribeVpcs", **FORM)
    assert identify(request_environ).form == {"Action": "DescribeVpcs"}
    assert request_environ["wsgi.input"].read() == b"Action=DescribeVpcs"


def test_an_unsigned_request_has_no_caller() -> None:
    assert identify({"PATH_INFO": "/", "QUERY_STRING": ""}).access_key_id == ""


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (Call("ec2", "us-east-1", "RunInstances", ""), "UnauthorizedOperation"),
        (Call("ssm", "us-east-1", "GetParameter", ""), "AccessDeniedException"),
        (Call("s3", "us-east-1", "GetObject", ""), "AccessDenied"),
        (Call("iam", "us-east-1", "GetRole", "", form={"Action": "GetRole"}), "AccessDenied"),
        (Call("route53", "us-east-1", "ListHostedZones", ""), "AccessDenied"),
    ],
)
def test_denials_have_each_services_code_which_the_log_shows(call: Call, code: str) -> None:
    response = answers.denied(call, "User: a & b")
    assert answers.error_code(response.status_code, response.get_data()) == code


def test_instance_ids_are_found_once_each_in_order() -> None:
    text = b"i-0000000000000000b, i-0000000000000000a i-0000000000000000b vol-0000000000000000c"
    assert answers.instance_ids(text) == ["i-0000000000000000b", "i-0000000000000000a"]
