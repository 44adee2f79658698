"""The cloud refuses everybody but its owner."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import stat
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import botocore.auth
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.testing.place import TRUST, Place, code

NOBODY = 65534
EVIL = "https://evil.example"


def answer(request: urllib.request.Request) -> tuple[int, Any, str]:
    """Status, headers and text, also of a refusal."""
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def signed(control_plane: Any, service: str, action: str, version: str, **headers: str) -> urllib.request.Request:
    """The request of the owner's client, with additional headers."""
    body = urllib.parse.urlencode({"Action": action, "Version": version})
    content = {"Content-Type": "application/x-www-form-urlencoded"}
    request = botocore.awsrequest.AWSRequest("POST", f"{control_plane.endpoint_url}/", content, body)
    keys = botocore.credentials.Credentials("localcloud", control_plane.secret)
    botocore.auth.SigV4Auth(keys, service, "us-east-1").add_auth(request)
    return urllib.request.Request(request.url, body.encode(), {**request.headers, **headers}, method="POST")


def as_nobody(*words: str) -> str:
    argv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False).stdout


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@root_only
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["--data", "Action=RunInstances&ImageId=ami-1&MinCount=1&MaxCount=1&Version=2016-11-15"], "/"),
        (["-H", "X-Amz-Target: AmazonSSM.GetParameter", "--data", "{}"], "/"),
        (["-H", "Authorization: AWS4-HMAC-SHA256 Credential=localcloud/20260101/us-east-1/ec2/aws4_request"], "/"),
        ([], "/a-bucket/a-key"),
        ([], "/_localcloud/status"),
        ([], "/_localcloud/credentials?instance_id=i-1"),
        (["--data", '{"kind": "capacity"}'], "/_localcloud/faults"),
    ],
)
def test_another_user_with_curl_gets_403(control_plane: Any, words: list[str], path: str) -> None:
    assert shutil.which("curl")
    url = control_plane.endpoint_url + path
    said = as_nobody("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", *words, url)
    assert said == "403"


@root_only
def test_another_user_cannot_look_into_the_state_directory(control_plane: Any) -> None:
    folder, secret = control_plane.state_dir, control_plane.state_dir / "secret-access-key"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert as_nobody("cat", str(secret)) == ""


@root_only
def test_a_closed_connection_does_not_count_as_roots(control_plane: Any) -> None:
    """The kernel reports user 0 for a connection that its client has closed."""
    script = (
        "import socket; s = socket.create_connection(('127.0.0.1', {port})); "
        "s.sendall(b'POST /_localcloud/faults HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Length: 40\\r\\n\\r\\n'); "
        's.sendall(b\'{{"kind": "throttle", "action": "Gone"}}   \'); s.close()'
    )
    port = urllib.parse.urlsplit(control_plane.endpoint_url).port
    for _ in range(5):
        as_nobody("/usr/bin/python3", "-c", script.format(port=port))
    time.sleep(0.3)
    faults = urllib.request.Request(f"{control_plane.endpoint_url}/_localcloud/faults")
    assert answer(faults)[2] == "[]\n"


@pytest.mark.parametrize("headers", [{"Origin": EVIL}, {"Origin": "null"}, {"Host": "evil.example:5566"}])
@pytest.mark.parametrize("path", ["/", "/_localcloud/status", "/_localcloud/wait/x", "/moto-api/data.json"])
def test_a_web_page_gets_403_and_no_cors_headers(control_plane: Any, headers: dict[str, str], path: str) -> None:
    request = urllib.request.Request(f"{control_plane.endpoint_url}{path}", headers=headers)
    status, answered, _ = answer(request)
    assert status == 403
    assert not [name for name in answered if name.lower().startswith("access-control-")]
    preflight = urllib.request.Request(
        f"{control_plane.endpoint_url}{path}", method="OPTIONS",
        headers={"Origin": EVIL, "Access-Control-Request-Method": "POST"},
    )  # fmt: skip
    assert answer(preflight)[0] == 403


def test_even_the_owners_signature_does_not_help_a_web_page(control_plane: Any) -> None:
    assert answer(signed(control_plane, "sts", "GetCallerIdentity", "2011-06-15", Origin=EVIL))[0] == 403
    status, headers, _ = answer(signed(control_plane, "sts", "GetCallerIdentity", "2011-06-15"))
    assert status == 200
    assert not [name for name in headers if name.lower().startswith("access-control-")]


def test_motos_own_routes_are_not_served(control_plane: Any) -> None:
    for path in ("/moto-api/", "/moto-api/reset", "/moto-api/data.json"):
        assert answer(urllib.request.Request(control_plane.endpoint_url + path, method="POST"))[0] == 404


WRONG_SECRET = {
    "ec2": ("describe_vpcs", "SignatureDoesNotMatch", 403),
    "sts": ("get_caller_identity", "SignatureDoesNotMatch", 403),
    "s3": ("list_buckets", "SignatureDoesNotMatch", 403),
    "route53": ("list_hosted_zones", "SignatureDoesNotMatch", 403),
    "ssm": ("describe_parameters", "InvalidSignatureException", 400),
    "dynamodb": ("list_tables", "InvalidSignatureException", 400),
}
UNKNOWN_KEY = {
    "ec2": ("describe_vpcs", "AuthFailure", 401),
    "sts": ("get_caller_identity", "InvalidClientTokenId", 403),
    "s3": ("list_buckets", "InvalidAccessKeyId", 403),
    "route53": ("list_hosted_zones", "InvalidClientTokenId", 403),
    "ssm": ("describe_parameters", "UnrecognizedClientException", 400),
}


@pytest.mark.parametrize(
    ("key", "service", "expected"),
    [("localcloud", *row) for row in WRONG_SECRET.items()] + [("AKIAOTHER", *row) for row in UNKNOWN_KEY.items()],
)
def test_unknown_keys_are_refused_with_awss_errors(
    control_plane: Any, key: str, service: str, expected: tuple[str, str, int]
) -> None:
    method, wanted, status = expected
    client = control_plane.client(service, aws_access_key_id=key, aws_secret_access_key="wrong")
    with pytest.raises(ClientError) as error:
        getattr(client, method)()
    assert (code(error), error.value.response["ResponseMetadata"]["HTTPStatusCode"]) == (wanted, status)


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_request_from_a_wrong_clock_is_refused(
    control_plane: Any, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: now)
    expected = {"sts": "SignatureDoesNotMatch", "s3": "RequestTimeTooSkewed", "ssm": "InvalidSignatureException"}
    for service, wanted in expected.items():
        method = {"sts": "get_caller_identity", "s3": "list_buckets", "ssm": "describe_parameters"}[service]
        with pytest.raises(ClientError) as error:
            getattr(control_plane.client(service), method)()
        assert code(error) == wanted


def test_a_request_changed_after_signing_is_refused(control_plane: Any) -> None:
    request = signed(control_plane, "sts", "GetCallerIdentity", "2011-06-15")
    request.data = b"Action=GetSessionToken&Version=2011-06-15"
    status, _, text = answer(request)
    assert (status, "SignatureDoesNotMatch" in text) == (403, True)


@pytest.fixture
def bucket(control_plane: Any) -> Any:
    s3 = control_plane.client("s3")
    s3.create_bucket(Bucket="doors")
    yield "doors"
    for found in s3.list_objects_v2(Bucket="doors").get("Contents", ()):
        s3.delete_object(Bucket="doors", Key=found["Key"])
    s3.delete_bucket(Bucket="doors")


def s3_client(control_plane: Any, **more: Any) -> Any:
    return boto3.client(
        "s3", region_name="us-east-1", endpoint_url=control_plane.endpoint_url, aws_access_key_id="localcloud",
        aws_secret_access_key=control_plane.secret, config=Config(**more),
    )  # fmt: skip


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_presigned_urls_are_accepted_until_they_expire(control_plane: Any, bucket: str, version: str) -> None:
    s3 = s3_client(control_plane, signature_version=version)
    for method, sent in (("put_object", b"content"), ("get_object", None)):
        where = {"Bucket": bucket, "Key": "a folder/ä+b&c=d"}
        url = s3.generate_presigned_url(method, Params=where, ExpiresIn=60)
        verb = method[:3].upper()
        bare = {"Content-Type": ""}  # Signature Version 2 covers this header, and urllib adds one
        status, _, text = answer(urllib.request.Request(url, sent, bare, method=verb))
        assert (status, text) == (200, "" if sent else "content")
        assert answer(urllib.request.Request(url.replace("folder", "other"), sent, method=verb))[0] == 403
        assert answer(urllib.request.Request(url, sent, method="DELETE"))[0] == 403
    brief = s3.generate_presigned_url("get_object", Params=where, ExpiresIn=1)
    time.sleep(2.1)
    status, _, text = answer(urllib.request.Request(brief))
    assert (status, "Request has expired" in text) == (403, True)


def test_every_form_of_signed_body_is_accepted(control_plane: Any, bucket: str) -> None:
    forms: list[dict[str, Any]] = [
        {},
        {"s3": {"payload_signing_enabled": False}},
        {"s3": {"payload_signing_enabled": True}},
        {"request_checksum_calculation": "when_required"},
    ]
    for form in forms:
        s3 = s3_client(control_plane, **form)
        metadata = {"with_underscore": "1", "spaced": "a   b"}
        s3.put_object(Bucket=bucket, Key="x y/ü~(1)*'", Body=os.urandom(70000), Metadata=metadata)
        found = s3.head_object(Bucket=bucket, Key="x y/ü~(1)*'")
        assert (found["ContentLength"], found["Metadata"]["with_underscore"]) == (70000, "1")
        assert s3.list_objects_v2(Bucket=bucket, Prefix="x y/", Delimiter="/", StartAfter="x")["KeyCount"] == 1


def test_a_role_needs_its_own_secret_and_token(control_plane: Any, place: Place, own: Callable[..., Any]) -> None:
    iam = control_plane.client("iam")
    iam.create_role(RoleName="doorkeeper", AssumeRolePolicyDocument=TRUST)
    iam.create_instance_profile(InstanceProfileName="doorkeeper")
    iam.add_role_to_instance_profile(InstanceProfileName="doorkeeper", RoleName="doorkeeper")
    (instance_id,) = place.run(IamInstanceProfile={"Name": "doorkeeper"})
    held = own("GET", f"credentials?instance_id={instance_id}")
    keys = {f"aws_{name}": held[name] for name in ("access_key_id", "secret_access_key", "session_token")}
    assert "doorkeeper" in control_plane.client("sts", **keys).get_caller_identity()["Arn"]
    wrong: dict[str, dict[str, str]] = {
        "SignatureDoesNotMatch": {"aws_secret_access_key": control_plane.secret},
        "InvalidClientTokenId": {"aws_session_token": "another"},
    }
    for expected, change in wrong.items():
        with pytest.raises(ClientError) as error:
            control_plane.client("sts", **(keys | change)).get_caller_identity()
        assert code(error) == expected


def test_only_the_clouds_own_key_is_an_administrator(control_plane: Any, bucket: str) -> None:
    iam = control_plane.client("iam")
    iam.create_user(UserName="reader")
    statement = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    user = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
    role = iam.create_role(RoleName="taken", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    iam.put_role_policy(RoleName="taken", PolicyName="read", PolicyDocument=policy)
    taken = control_plane.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    session = {
        "aws_access_key_id": taken["AccessKeyId"], "aws_secret_access_key": taken["SecretAccessKey"],
        "aws_session_token": taken["SessionToken"],
    }  # fmt: skip
    for keys in (user, session):
        s3 = control_plane.client("s3", **keys)
        s3.list_objects_v2(Bucket=bucket)
        with pytest.raises(ClientError) as error:
            s3.put_object(Bucket=bucket, Key="x", Body=b"")
        assert code(error) == "AccessDenied"
    iam.update_access_key(UserName="reader", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    with pytest.raises(ClientError) as error:
        control_plane.client("s3", **user).list_objects_v2(Bucket=bucket)
    assert code(error) == "InvalidAccessKeyId"


def test_env_prints_variables_for_a_shell(control_plane: Any, localcloud_command: Callable[..., Any]) -> None:
    printed = localcloud_command(control_plane.environment, "env").stdout
    variables = control_plane.environment | {"AWS_PROFILE": "mine", "AWS_SESSION_TOKEN": "mine"}
    done = subprocess.run(
        ["bash", "-c", 'eval "$1" && env', "-", printed], env=variables, capture_output=True, text=True, check=True
    )
    exported = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert exported["AWS_ENDPOINT_URL"] == control_plane.endpoint_url
    assert (exported["AWS_ACCESS_KEY_ID"], exported["AWS_SECRET_ACCESS_KEY"]) == ("localcloud", control_plane.secret)
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & set(exported)
    assert len(control_plane.secret) >= 40
    assert Path(control_plane.state_dir, "cloud.json").read_text().find(control_plane.secret) == -1
