"""Calls AWS with Python's standard library only. Boot steps need it, because a plain image has neither the AWS CLI nor
boto3, and so do calls with a parameter that an image's boto3 is too old to know.

usage: aws_api parameter NAME [KEY]         a value of Parameter Store, or of the JSON in it
       aws_api put-parameter NAME VALUE     overwrites an existing one
       aws_api secret ARN [KEY]             a secret, or a value of the JSON in it
       aws_api node                         the name of this instance's Slurm node, or nothing
       aws_api put-tag INSTANCE KEY VALUE
       aws_api object S3_ADDRESS FILE       downloads s3://bucket/key of this region

It takes a tenth of the AWS CLI's processor time (0.08 s for 0.8 s), and a boot makes several calls.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import unescape
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from gpucluster_node import imds, names

TRIES = 15
"""With the waits between them about two minutes: at forty reads a second, thousands of nodes take that long."""
LONGEST_WAIT_S = 20
TIMEOUT_S = 20
NO_ANSWER = (OSError, HTTPException)
"""Errors of the network, or of the metadata service. An interrupted answer (IncompleteRead) is not an OSError."""
PASSING = re.compile(r"Throttl|RequestLimitExceeded|TooManyRequests|RequestTimeout|SlowDown")
"""Error codes that come with status 400. Parameter Store answers some forty reads a second, and a thousand nodes may
boot at once."""
TARGETS = {"ssm": "AmazonSSM", "secretsmanager": "secretsmanager", "fsx": "AWSSimbaAPIService_v20180301"}
EC2_VERSION = "2016-11-15"
TAG_CHARACTERS = 250


class Refused(Exception):
    """AWS's code and message."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.passes = status >= 500 or status == 429 or bool(PASSING.search(said))


ERRORS = (Refused, *NO_ANSWER)


@dataclass(frozen=True)
class Credentials:
    key_id: str
    secret: str
    token: str


def role_credentials() -> Credentials:
    folder = "meta-data/iam/security-credentials/"
    found = json.loads(imds.ask(folder + imds.ask(folder).split()[0]))
    if "AccessKeyId" not in found:  # a role that the instance may not assume comes with status 200 too
        raise Refused(500, f"{found.get('Code')}: {found.get('Message')}")
    return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["Token"])


def endpoint(service: str, region: str) -> str:
    """The environment's endpoint, by the names that AWS's SDKs read; else the region's, in its partition's domain."""
    chosen = os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL")
    return (chosen or f"https://{service}.{region}.{imds.ask('meta-data/services/domain')}").rstrip("/")


def signed(
    credentials: Credentials, service: str, region: str, url: str, body: bytes, headers: Mapping[str, str], now: str
) -> dict[str, str]:
    """The headers with Signature Version 4 of a POST to `url`, or of a GET if there is no body. `now`: as
    20260131T235959Z."""
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    sent = {**headers, "host": urlsplit(url).netloc, "x-amz-date": now, "x-amz-security-token": credentials.token}
    names = ";".join(sorted(sent))
    lines = "".join(f"{name}:{sent[name]}\n" for name in sorted(sent))
    method = "POST" if body else "GET"
    request = f"{method}\n{urlsplit(url).path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    identity = f"Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**sent, "authorization": f"AWS4-HMAC-SHA256 {identity}"}


def call(service: str, body: bytes, headers: Mapping[str, str], tries: int = TRIES) -> str:
    """Raises Refused."""
    return _patiently(lambda: _sent(service, "/", body, headers), tries).decode()


def _patiently(once: Callable[[], bytes], tries: int = TRIES) -> bytes:
    """Raises Refused. Retries temporary errors after a random time, because many nodes boot at once."""
    for attempt in range(1, tries):
        try:
            return once()
        except Refused as error:
            if not error.passes:
                raise
        except NO_ANSWER as error:
            print(f"cannot reach AWS yet: {error}", file=sys.stderr)
        time.sleep(random.uniform(0, min(LONGEST_WAIT_S, 2**attempt)))
    return once()


def _sent(service: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    region = os.environ["AWS_DEFAULT_REGION"]
    url = endpoint(service, region) + path
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    request = Request(url, body or None, signed(role_credentials(), service, region, url, body, headers, now))
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            found: bytes = answer.read()
            return found
    except HTTPError as error:
        raise Refused(error.code, reason(error.code, error.read().decode(errors="replace"))) from None


def reason(status: int, text: str) -> str:
    """JSON of the newer services, XML of EC2; a proxy's answer is neither."""
    code = re.search(r'"__type"\s*:\s*"(?:[^"]*#)?([^"]+)"|<Code>([^<]*)</Code>', text)
    message = re.search(r'"[Mm]essage"\s*:\s*"((?:[^"\\]|\\.)*)"|<Message>([^<]*)</Message>', text)
    if code is None:
        return f"HTTP {status}: {text[:200]}"
    said = unescape(next(filter(None, message.groups()), "")) if message else ""
    return ": ".join(filter(None, (code[1] or code[2], said)))


def ask(service: str, action: str, *, tries: int = TRIES, **arguments: object) -> dict[str, object]:
    """One of TARGETS. Raises ERRORS."""
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": f"{TARGETS[service]}.{action}"}
    found: dict[str, object] = json.loads(call(service, json.dumps(arguments).encode(), headers, tries))
    return found


def _ec2(action: str, **arguments: str) -> str:
    form = {
        "Action": action,
        "Version": EC2_VERSION,
        **{name.replace("_", "."): each for name, each in arguments.items()},
    }
    return call(
        "ec2",
        urlencode(form, errors="replace").encode(),
        {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
    )


def _value(text: object, key: str | None) -> str:
    return str(text if key is None else json.loads(str(text))[key])


def parameter(name: str, key: str | None = None) -> str:
    found = ask("ssm", "GetParameter", Name=name)["Parameter"]
    return _value(found["Value"], key) if isinstance(found, dict) else ""


def put_parameter(name: str, value: str) -> None:
    ask("ssm", "PutParameter", Name=name, Value=value, Type="String", Overwrite=True)


def secret(arn: str, key: str | None = None) -> str:
    return _value(ask("secretsmanager", "GetSecretValue", SecretId=arn)["SecretString"], key)


def node() -> str:
    """Nothing until the head node has tagged the instance."""
    value = tag(imds.instance_id(), names.TAG)
    return value and names.node_of(value, int(imds.ask("meta-data/ami-launch-index"))) or ""


def tag(instance: str, key: str) -> str:
    filters = {
        "Filter_1_Name": "resource-id",
        "Filter_1_Value_1": instance,
        "Filter_2_Name": "key",
        "Filter_2_Value_1": key,
    }
    found = re.search(r"<value>([^<]*)</value>", _ec2("DescribeTags", **filters))
    return unescape(found[1]) if found else ""


def put_tag(instance: str, key: str, value: str) -> None:
    """As much of the value as a tag can hold."""
    _ec2("CreateTags", ResourceId_1=instance, Tag_1_Key=key, Tag_1_Value=value[:TAG_CHARACTERS])


def save_object(address: str, file: str) -> None:
    """Path-style, as S3's API reference has it for GetObject: a bucket's name may have dots."""
    headers = {"x-amz-content-sha256": hashlib.sha256(b"").hexdigest()}
    path = quote(address.split("/", 1)[1], safe="/-_.~")  # s3://bucket/key -> /bucket/key
    found = _patiently(lambda: _sent("s3", path, b"", headers))
    with open(file, "wb") as target:
        target.write(found)


VERBS: dict[str, Callable[..., str | None]] = {
    "parameter": parameter,
    "put-parameter": put_parameter,
    "secret": secret,
    "node": node,
    "put-tag": put_tag,
    "object": save_object,
}


def main(arguments: list[str]) -> int:
    verb, *rest = arguments
    try:
        said = VERBS[verb](*rest)
    except (*ERRORS, KeyError, ValueError) as error:
        print(f"AWS call {' '.join([verb, *rest[:1]])} failed: {error}", file=sys.stderr)
        return 1
    if said is not None:
        sys.stdout.write(said + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
