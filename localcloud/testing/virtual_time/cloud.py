"""The local cloud in this process, on virtual time: boto3's requests reach it without a network, and are counted."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.endpoint
from botocore.awsrequest import AWSResponse
from botocore.httpsession import URLLib3Session
from werkzeug.test import EnvironBuilder, run_wsgi_app

from localcloud import clients, state
from localcloud.api import server
from localcloud.api.api_log import ApiLog
from localcloud.api.control_plane import ControlPlane
from localcloud.api.routes import Routes
from localcloud.machines import no_boot
from localcloud.protocol import calls
from localcloud.testing.virtual_time.clock import VirtualClock
from localcloud.testing.virtual_time.shims import ShimTime

_URL = "http://127.0.0.1:1"  # nothing listens there
_SECRET = "secret"


class Cloud:
    """One at a time."""

    def __init__(
        self, clock: VirtualClock, folder: Path, pace: str = "aws", without_lags: Collection[str] = ()
    ) -> None:
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.log = log = ApiLog(folder / "api.jsonl")
        record = state.Cloud("pace", "0000", os.getpid(), 0, 1, _URL, boot=False)
        plane = ControlPlane(log, _URL, _SECRET, lambda metadata: no_boot.NoBoot())
        self.runtime, self.sessions = plane.runtime, plane.sessions
        self.begin = lambda: plane.runtime.pace.begin(pace, clock, without_lags=without_lags) if pace else None
        self._app = server.Application(plane, Routes(record, plane))

    def client(self, service: str) -> Any:
        """The administrator's."""
        return clients.client(service)

    def send(self, request: Any) -> AWSResponse:
        environ = _environ(request)
        call = calls.identify(environ)
        body, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        content, code = b"".join(body), int(status.split()[0])
        name = f"{call.service}:{call.action}"
        self.calls[name] += 1
        if code >= 400:
            from localcloud.protocol import answers

            self.errors[f"{name} {answers.error_code(code, content)}"] += 1
        response = AWSResponse(request.url, code, dict(headers.items()), _Raw(content))
        response.content  # noqa: B018  # read now, as botocore does where nothing is streamed
        return response


class _Raw(io.BytesIO):
    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self.read()


def _environ(request: Any) -> dict[str, Any]:
    url = urlsplit(request.url)
    body = request.body or b""
    if hasattr(body, "read"):
        body = body.read()
    data = body.encode() if isinstance(body, str) else bytes(body)
    headers = {
        key: value.decode() if isinstance(value, bytes) else str(value) for key, value in request.headers.items()
    }
    builder = EnvironBuilder(
        path=url.path or "/", query_string=url.query, method=request.method, base_url=_URL, headers=headers, data=data
    )
    return dict(builder.get_environ())


def _forget() -> None:
    """Deletes everything that an earlier cloud of this process created."""
    from moto.core.base_backend import BackendDict

    BackendDict.reset()


@contextmanager
def made(folder: Path, pace: str = "aws", without_lags: Collection[str] = ()) -> Iterator[Cloud]:
    """pace: a table of localcloud/pace; "" for none."""
    clock = VirtualClock()
    shim = ShimTime(clock)
    names: dict[tuple[Any, str], Any] = {
        (URLLib3Session, "send"): None,
        (botocore.endpoint, "time"): shim,
        (no_boot, "PENDING_S"): 0.0,
        (no_boot, "SHUTTING_DOWN_S"): 0.0,
        (_instances(), "utcnow"): lambda: shim.utc().replace(tzinfo=None),
    }
    before = {key: getattr(*key) for key in names}
    _forget()
    cloud = Cloud(clock, folder, pace, without_lags)
    names[(URLLib3Session, "send")] = lambda self, request: cloud.send(request)
    environment = dict(os.environ)
    os.environ |= {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": _URL}
    try:
        for (owner, name), value in names.items():
            setattr(owner, name, value)
        boto3.DEFAULT_SESSION = None  # it would keep the credentials of an earlier head
        yield cloud
    finally:
        clock.stop()
        cloud.log.close()
        for (owner, name), value in before.items():
            setattr(owner, name, value)
        os.environ.clear()
        os.environ |= environment


def _instances() -> Any:
    from moto.ec2.models import instances

    return instances
