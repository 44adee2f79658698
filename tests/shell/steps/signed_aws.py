"""A web server that stands in for the metadata service, Parameter Store, Secrets Manager, EC2 and S3 during boots.

It refuses a request unless botocore computes the same signature. Answers have the form of the examples in AWS's
API references: docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html,
…/secretsmanager/latest/apireference/API_GetSecretValue.html, …/AWSEC2/latest/APIReference/API_DescribeTags.html.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock
from urllib.parse import parse_qs

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEYS = Credentials("ASIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "IQoJb3JpZ2luX2VjEExample/Token==")
ROLE = {"Code": "Success", "AccessKeyId": KEYS.access_key, "SecretAccessKey": KEYS.secret_key, "Token": KEYS.token}
METADATA = {
    "placement/region": "eu-west-1",
    "services/domain": "amazonaws.com",
    "instance-id": "i-0123456789abcdef0",
    "ami-launch-index": "3",
    "iam/security-credentials/": "NodeRole",
    "iam/security-credentials/NodeRole": json.dumps(ROLE),
}
TAGS = """<?xml version="1.0" encoding="UTF-8"?>
<DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
   <requestId>7a62c49f-347e-4fc4-9331-6e8eEXAMPLE</requestId>
   <tagSet>{items}</tagSet>
</DescribeTagsResponse>"""
TAG = """
      <item>
         <resourceId>i-0123456789abcdef0</resourceId>
         <resourceType>instance</resourceType>
         <key>gpucluster:node</key>
         <value>{value}</value>
      </item>"""
EC2_ERROR = """<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>
<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>"""


class SignedAws:
    """`refusals`: (status, body) that are answered first, one each. `broken_off`: how many answers lack their end."""

    def __init__(self) -> None:
        self.parameters: dict[str, str] = {}
        self.secrets: dict[str, str] = {}
        self.objects: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.refusals: list[tuple[int, str]] = []
        self.broken_off = 0
        self.signals: list[dict[str, str]] = []
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url,
            "AWS_DEFAULT_REGION": METADATA["placement/region"],
        }
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(outer: SignedAws) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, said = outer.answer(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(said) + (outer.broken_off > 0)))
                outer.broken_off -= outer.broken_off > 0
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_PUT = do_POST = answer  # noqa: N815

        return Handler

    def answer(self, verb: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        sent = {name.lower(): value for name, value in headers.items()}
        if path.startswith("/latest/"):
            return self._metadata(verb, path.removeprefix("/latest/"), sent)
        if path.startswith("/wait-handle?"):  # presigned by CloudFormation, for an empty content type
            assert sent["content-type"] == ""
            self.signals.append(json.loads(body))
            return 200, b""
        if sent.get("authorization") != authorization(verb, self.url + path, sent, body):
            return 403, b'{"__type":"InvalidSignatureException","message":"The signature does not match"}'
        if self.refusals:
            status, text = self.refusals.pop(0)
            self.asked.append(f"refused {status}")
            return status, text.encode()
        return self._service(path, sent, body)

    def _metadata(self, verb: str, path: str, sent: Mapping[str, str]) -> tuple[int, bytes]:
        if path == "api/token":
            return (200, b"the-token") if verb == "PUT" and sent["x-aws-ec2-metadata-token-ttl-seconds"] else (405, b"")
        if sent.get("x-aws-ec2-metadata-token") != "the-token":
            return 401, b""
        found = METADATA.get(path.removeprefix("meta-data/"))
        return (404, b"") if found is None else (200, found.encode())

    def _service(self, path: str, sent: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        if target := sent.get("x-amz-target"):
            return self._json(target, json.loads(body))
        if sent.get("content-type", "").startswith("application/x-www-form-urlencoded") and body:
            return self._ec2({name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True).items()})
        self.asked.append(f"GetObject {path}")
        return (200, self.objects[path]) if path in self.objects else (404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _json(self, target: str, asked: Mapping[str, str]) -> tuple[int, bytes]:
        name = asked.get("Name") or asked["SecretId"]
        self.asked.append(f"{target} {name}")
        if target == "AmazonSSM.PutParameter":
            self.parameters[name] = asked["Value"]
            return 200, b'{"Tier":"Standard","Version":2}'
        if target == "secretsmanager.GetSecretValue":
            return 200, json.dumps({"ARN": name, "Name": "x", "SecretString": self.secrets[name]}).encode()
        if name not in self.parameters:
            return 400, b'{"__type":"ParameterNotFound"}'
        found = {"Name": name, "Type": "String", "Value": self.parameters[name], "Version": 1, "DataType": "text"}
        return 200, json.dumps({"Parameter": found}).encode()

    def _ec2(self, asked: Mapping[str, str]) -> tuple[int, bytes]:
        self.asked.append(" ".join(f"{name}={value}" for name, value in sorted(asked.items())))
        if asked["Action"] == "CreateTags":
            self.tags[asked["Tag.1.Key"]] = asked["Tag.1.Value"]
            return 200, b"<CreateTagsResponse><return>true</return></CreateTagsResponse>"
        value = self.tags.get(asked["Filter.2.Value.1"])
        return 200, TAGS.format(items=TAG.format(value=value) if value else "").encode()


def authorization(verb: str, url: str, sent: Mapping[str, str], body: bytes) -> str:
    """The Authorization header that botocore computes for the request's time and signed headers."""
    scope, names = sent["authorization"].split("/", 1)[1].split(", ")[:2]
    _, region, service, _ = scope.split("/")
    signed = {name: sent[name] for name in names.removeprefix("SignedHeaders=").split(";")}
    request = AWSRequest(verb, url, {name: value for name, value in signed.items() if name != "x-amz-date"}, body)
    signer = (auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth)(KEYS, service, region)
    now = datetime.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%SZ")
    with mock.patch.object(auth, "get_current_datetime", lambda *_, **__: now):
        signer.add_auth(request)
    return str(request.headers["Authorization"])
