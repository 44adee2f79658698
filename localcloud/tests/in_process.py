"""The whole control plane in this process, without a server: boto3's requests go directly to its application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from werkzeug.test import EnvironBuilder, run_wsgi_app

REGION, SECRET = "us-east-1", "in-process"
_PLAIN = Config(
    retries={"total_max_attempts": 1}, parameter_validation=False, s3={"addressing_style": "path"}
)  # so that invalid requests reach the cloud


_BOUND = ("ec2", "ec2instanceconnect", "fsx", "rds", "sagemaker", "servicequotas")
"""moto's names of the services whose answers depend on the control plane: its faults, machines and files."""
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class _Body:
    """The part of a response that botocore reads."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> list[bytes]:
        content, self._content = self._content, b""
        return [content]

    def read(self, *_: Any, **__: Any) -> bytes:
        return b"".join(self.stream())


class InProcess:
    def __init__(self, directory: Path) -> None:
        from localcloud.api import server
        from localcloud.api.api_log import ApiLog
        from localcloud.api.control_plane import ControlPlane
        from localcloud.machines.no_boot import NoBoot

        self._log = ApiLog(directory / "api.jsonl")
        plane = ControlPlane(
            self._log,
            "http://127.0.0.1",
            SECRET,
            lambda metadata: NoBoot(),
            tunnel_address="127.0.0.1:1",
            jobs=directory / "jobs",
        )
        plane.moto.bind(_BOUND)
        self._app = server.Application(plane, None)
        self.faults = plane.runtime.faults

    def close(self) -> None:
        self._log.close()

    def client(self, service: str, region: str = REGION, keys: tuple[str, str] = ("localcloud", SECRET)) -> Any:
        client = boto3.client(
            service, region_name=region, endpoint_url="http://127.0.0.1", config=_PLAIN,
            aws_access_key_id=keys[0], aws_secret_access_key=keys[1],
        )  # fmt: skip
        client.meta.events.register("before-send", self._answer)
        return client

    def plain(self, service: str, target: str, form: dict[str, str]) -> tuple[int, str]:
        """Sends a signed request that no client would make; returns status and body."""
        headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"} if target else _FORM
        request = AWSRequest("POST", "http://127.0.0.1/", headers, b"{}" if target else form)
        SigV4Auth(Credentials("localcloud", SECRET), service, REGION).add_auth(request)
        answer = self._answer(request.prepare())
        return answer.status_code, answer.text

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        url = urlsplit(request.url)
        body = request.body.read() if hasattr(request.body, "read") else request.body or b""
        headers = {name: _text(value) for name, value in request.headers.items()}
        environ = EnvironBuilder(
            path=url.path, query_string=url.query, method=request.method, headers=headers, data=body,
            base_url="http://127.0.0.1",
        ).get_environ()  # fmt: skip
        target = f"{url.path}?{url.query}" if url.query else url.path
        environ |= {"QUERY_STRING": url.query, "RAW_URI": target, "REQUEST_URI": target}  # as it was signed
        content, status, answered = run_wsgi_app(self._app, environ, buffered=True)
        return AWSResponse(request.url, int(status.split()[0]), dict(answered), _Body(b"".join(content)))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def refusal(call: Callable[[], Any]) -> tuple[str, int, str]:
    """Code, HTTP status and message of a refused call; ("", status, "") of an accepted one."""
    try:
        answer = call()
    except ClientError as error:
        status = int(error.response["ResponseMetadata"]["HTTPStatusCode"])
        return str(error.response["Error"]["Code"]), status, str(error.response["Error"].get("Message", ""))
    return "", int(answer["ResponseMetadata"]["HTTPStatusCode"]), ""
