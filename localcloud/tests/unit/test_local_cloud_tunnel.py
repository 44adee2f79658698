"""The tunnel's websocket against a machine that echoes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from moto.ec2.models import ec2_backends
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from localcloud.api.tunnel import Tunnels, target_of
from localcloud.clients import ACCOUNT_ID
from localcloud.ec2.authorization import instance_connect
from localcloud.ec2.networks.connect import endpoints
from localcloud.identity import roles
from localcloud.identity.authorization import Judge
from localcloud.identity.keys import Keys
from localcloud.identity.resources import Checker
from localcloud.identity.roles import Sessions
from localcloud.machines.no_boot import NoBoot
from localcloud.runtime import Locks, Runtime
from localcloud.testing import patience
from localcloud.tests import presigned

SECRET = "the cloud's own"


class EchoMachines(NoBoot):
    """Every address answers with an echo."""

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        ours, theirs = socket.socketpair()

        def echo() -> None:
            with theirs:
                while data := theirs.recv(65536):
                    theirs.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        return ours


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture(scope="module")
def url(sessions: Sessions) -> Iterator[str]:
    runtime = Runtime(EchoMachines())
    checkers: dict[str, Checker] = {"ec2-instance-connect": partial(instance_connect, runtime.pace)}
    tunnels = Tunnels(runtime, Keys(SECRET, sessions), Judge(runtime.pace, checkers))
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    vpc = backend.create_vpc("10.3.0.0/16")
    endpoints(backend)["eice-1"] = {"VpcId": vpc.id}
    server = tunnels.start("127.0.0.1", 0)
    query = "instanceConnectEndpointId=eice-1&privateIpAddress=10.3.0.4&remotePort=22"
    yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/openTunnel?{query}"
    server.shutdown()
    del endpoints(backend)["eice-1"]
    backend.delete_vpc(vpc.id)


def signed(url: str, secret: str = SECRET, **more: Any) -> str:
    return presigned.tunnel(url, secret, **more)


def test_a_tunnel_leads_into_the_vpc_of_its_endpoint(url: str) -> None:
    """Another VPC may have the same addresses."""
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    other = backend.create_vpc("10.3.0.0/16")
    endpoints(backend)["eice-2"] = {"VpcId": other.id}
    try:
        first, second = (target_of(each, Locks()) for each in (url, url.replace("eice-1", "eice-2")))
    finally:
        del endpoints(backend)["eice-2"]
        backend.delete_vpc(other.id)
    assert second.vpc_id == other.id
    assert (first.private_ip, first.vpc_id == second.vpc_id) == (second.private_ip, False)


def test_bytes_go_both_ways_unchanged(url: str) -> None:
    sent = bytes(range(256)) * 4096  # 1 MiB: many frames back
    with connect(signed(url), proxy=None) as websocket:
        websocket.send(sent)
        received = b""
        while len(received) < len(sent):
            frame = websocket.recv(timeout=60)
            assert isinstance(frame, bytes)
            received += frame
    assert received == sent


def test_a_tunnel_ends_after_its_duration(url: str) -> None:
    begun = time.monotonic()
    with (
        connect(signed(url + "&maxTunnelDuration=1"), proxy=None) as websocket,
        pytest.raises(ConnectionClosed) as closed,
    ):
        websocket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    assert 0.9 < time.monotonic() - begun < patience.stretched(5)


def refused(url: str, **headers: str) -> str:
    """The reason of the refusal."""
    with (
        pytest.raises(InvalidStatus) as error,
        connect(url, proxy=None, additional_headers=headers or None),
    ):
        pass
    assert error.value.response.status_code == 403
    return bytes(error.value.response.body or b"").decode()


def test_a_tunnel_without_a_valid_signature_is_refused(url: str) -> None:
    assert "missing" in refused(url)
    assert "unknown-key" in refused(signed(url, key="AKIAOTHER"))
    assert "mismatch" in refused(signed(url, secret="wrong"))
    assert "mismatch" in refused(signed(url).replace("10.3.0.4", "10.3.0.5"))


def test_a_tunnels_signature_expires(url: str) -> None:
    brief = signed(url, expires=1)
    time.sleep(2.1)
    assert "expired" in refused(brief)


def test_a_web_page_opens_no_tunnel(url: str) -> None:
    assert "Origin" in refused(signed(url), Origin="https://evil.example")
    port = urlsplit(url).port
    with socket.create_connection(("127.0.0.1", port)) as plain:
        path = signed(url).partition(str(port))[2]
        lines = (f"GET {path} HTTP/1.1", "Host: evil.example", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "", "")  # fmt: skip
        plain.sendall("\r\n".join(lines).encode())
        assert plain.recv(100).startswith(b"HTTP/1.1 403")


def test_a_role_needs_permission_to_open_a_tunnel(url: str, sessions: Sessions) -> None:
    iam = roles.iam()
    backend_role = iam.create_role("tunneller", "{}", "/", "", None, "", "3600")
    answer = "<AccessKeyId>ASIAX</AccessKeyId><SecretAccessKey>hidden</SecretAccessKey><SessionToken>t</SessionToken>"
    sessions.assumed(None, {"RoleArn": backend_role.arn, "RoleSessionName": "me"}, answer)
    theirs = signed(url, key="ASIAX", secret="hidden", token="t")
    assert "not authorized to perform: ec2-instance-connect:OpenTunnel" in refused(theirs)
    allow = {"Effect": "Allow", "Action": "ec2-instance-connect:OpenTunnel", "Resource": "*"}
    only = {"Condition": {"NumericEquals": {"ec2-instance-connect:remotePort": "22"}}}
    iam.put_role_policy("tunneller", "open", json.dumps({"Version": "2012-10-17", "Statement": [allow | only]}))
    with connect(theirs, proxy=None) as websocket:
        websocket.send(b"hello")
        assert websocket.recv(timeout=60) == b"hello"
    iam.delete_role_policy("tunneller", "open")
    iam.delete_role("tunneller")
