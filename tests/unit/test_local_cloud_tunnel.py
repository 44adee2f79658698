"""The tunnel's websocket against a machine that echoes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from moto.ec2.models import ec2_backends
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from localcloud import runtime, tunnel
from localcloud.clients import ACCOUNT_ID
from localcloud.ec2.connect import endpoints
from localcloud.faults import Faults
from localcloud.no_boot import NoBoot
from localcloud.roles import Sessions
from localcloud.ssh_keys import PushedKeys


class EchoMachines(NoBoot):
    """Every address answers, and sends back what it is sent."""

    def connect(self, vpc_id: str, private_ip: str, port: int) -> socket.socket:
        ours, theirs = socket.socketpair()

        def echo() -> None:
            with theirs:
                while data := theirs.recv(65536):
                    theirs.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        return ours


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    runtime.install(runtime.Runtime(EchoMachines(), Faults(), Sessions(), PushedKeys(), ""))
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    vpc = backend.create_vpc("10.3.0.0/16")
    endpoints(backend)["eice-1"] = {"VpcId": vpc.id}
    server = tunnel.start("127.0.0.1", 0)
    query = "instanceConnectEndpointId=eice-1&privateIpAddress=10.3.0.4&remotePort=22"
    yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/openTunnel?{query}"
    server.shutdown()
    del endpoints(backend)["eice-1"]
    backend.delete_vpc(vpc.id)


def test_a_tunnel_leads_into_the_vpc_of_its_endpoint(url: str) -> None:
    """Another VPC may have the same addresses."""
    backend = ec2_backends[ACCOUNT_ID]["us-east-1"]
    other = backend.create_vpc("10.3.0.0/16")
    endpoints(backend)["eice-2"] = {"VpcId": other.id}
    try:
        first, second = tunnel.target_of(url), tunnel.target_of(url.replace("eice-1", "eice-2"))
    finally:
        del endpoints(backend)["eice-2"]
        backend.delete_vpc(other.id)
    assert second.vpc_id == other.id
    assert (first.private_ip, first.vpc_id == second.vpc_id) == (second.private_ip, False)


def test_bytes_go_both_ways_unchanged(url: str) -> None:
    sent = bytes(range(256)) * 4096  # 1 MiB: many frames back
    with connect(url, proxy=None) as websocket:
        websocket.send(sent)
        received = b""
        while len(received) < len(sent):
            frame = websocket.recv(timeout=10)
            assert isinstance(frame, bytes)
            received += frame
    assert received == sent


def test_a_tunnel_ends_after_its_duration(url: str) -> None:
    begun = time.monotonic()
    with connect(url + "&maxTunnelDuration=1", proxy=None) as websocket, pytest.raises(ConnectionClosed) as closed:
        websocket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    assert 0.9 < time.monotonic() - begun < 5


def test_signature_parameters_are_ignored(url: str) -> None:
    with connect(url + "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", proxy=None) as websocket:
        websocket.send(b"hello")
        assert websocket.recv(timeout=10) == b"hello"
