"""The websocket of EC2 Instance Connect Endpoints: a TCP connection into a VPC as binary frames.

Its address is presigned. A request without a valid signature, or from a role that may not open tunnels, gets 403.

GET /openTunnel?instanceConnectEndpointId=&privateIpAddress=&remotePort=&maxTunnelDuration=… A wrong request is closed
with 1008 and a reason; if the machine does not answer, with 1011.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from localcloud.api import doors
from localcloud.ec2 import lifecycle
from localcloud.ec2.networks import connect
from localcloud.identity.authorization import Judge
from localcloud.identity.keys import Keys
from localcloud.protocol import signatures
from localcloud.protocol.calls import Call
from localcloud.protocol.credential_errors import Refused
from localcloud.runtime import Locks, Runtime

MAX_DURATION_S = 3600
_PORTS = (22, 3389)  # AWS allows only these ports
_CHUNK = 65536


class BadRequest(Exception):
    """Why a tunnel is refused, in one line."""


@dataclass(frozen=True)
class Target:
    vpc_id: str
    private_ip: str
    port: int
    duration_s: int


class Tunnels:
    def __init__(self, runtime: Runtime, keys: Keys, judge: Judge) -> None:
        self._runtime = runtime
        self._keys = keys
        self._judge = judge

    def start(self, host: str, port: int) -> Server:
        server = serve(self._handle, host, port, compression=None, max_size=None, process_request=self._admit)
        threading.Thread(target=server.serve_forever, name="tunnel", daemon=True).start()
        return server

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """None admits the request."""
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        reason = doors.refuses(headers.get("host", ""), headers.get("origin"))
        try:
            reason = reason or self._denial(signatures.Received("GET", request.path, headers))
        except Refused as error:
            reason = f"the signature is not valid: {error.kind}"
        return connection.respond(HTTPStatus.FORBIDDEN, f"{reason}\n") if reason else None

    def _denial(self, request: signatures.Received) -> str | None:
        """Raises Refused."""
        key = signatures.verify(request, self._keys.held)
        query = request.query
        region = query["X-Amz-Credential"].split("/")[2]
        call = Call("ec2-instance-connect", region, "OpenTunnel", key, query)
        with self._runtime.locks.whole:
            denial = self._judge.judge(call, self._keys.session_of(key)).denial
        return str(denial) if denial else None

    def _handle(self, websocket: ServerConnection) -> None:
        try:
            target = target_of(websocket.request.path if websocket.request else "", self._runtime.locks)
            remote = self._runtime.hypervisor.connect(target.vpc_id, target.private_ip, target.port)
        except BadRequest as error:
            websocket.close(1008, _reason(str(error)))
            return
        except OSError as error:
            websocket.close(1011, _reason(f"cannot connect: {error}"))
            return
        _carry(websocket, remote, target.duration_s)


def target_of(url: str, locks: Locks) -> Target:
    """Raises BadRequest."""
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    if parts.path != "/openTunnel":
        raise BadRequest(f"unknown path {parts.path}; expected /openTunnel")
    vpc_id = _vpc_of(query.get("instanceConnectEndpointId", ""), query.get("privateIpAddress", ""), locks)
    try:
        port, duration_s = int(query.get("remotePort", "22")), int(query.get("maxTunnelDuration", MAX_DURATION_S))
    except ValueError as error:
        raise BadRequest("remotePort and maxTunnelDuration must be numbers") from error
    if port not in _PORTS:
        raise BadRequest(f"remotePort {port} is not allowed; allowed: 22, 3389")
    if not 1 <= duration_s <= MAX_DURATION_S:
        raise BadRequest(f"maxTunnelDuration must be 1 to {MAX_DURATION_S} seconds, got {duration_s}")
    return Target(vpc_id, query["privateIpAddress"], port, duration_s)


def _vpc_of(endpoint_id: str, private_ip: str, locks: Locks) -> str:
    """The endpoint's VPC, which must contain this address."""
    try:
        address = ipaddress.ip_address(private_ip)
    except ValueError as error:
        raise BadRequest(f"privateIpAddress {private_ip!r} is not an address") from error
    with locks.whole:
        for backend in lifecycle.all_backends():
            if endpoint := connect.endpoints(backend).get(endpoint_id):
                vpc = backend.get_vpc(endpoint["VpcId"])
                if address not in ipaddress.ip_network(vpc.cidr_block):
                    raise BadRequest(f"{private_ip} is not in the endpoint's VPC {vpc.id} ({vpc.cidr_block})")
                return str(vpc.id)
    raise BadRequest(f"the instance connect endpoint {endpoint_id!r} does not exist")


def _carry(websocket: ServerConnection, remote: socket.socket, duration_s: int) -> None:
    timer = threading.Timer(duration_s, _expire, (websocket, remote))
    timer.daemon = True
    timer.start()
    back = threading.Thread(target=_to_client, args=(remote, websocket), daemon=True)
    back.start()
    try:
        _to_machine(websocket, remote)
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):
            remote.shutdown(socket.SHUT_RDWR)
        back.join(5)
        remote.close()


def _reason(text: str) -> str:
    """A close frame has at most 123 bytes."""
    return text.encode()[:120].decode(errors="ignore")


def _expire(websocket: ServerConnection, remote: socket.socket) -> None:
    with contextlib.suppress(OSError):
        remote.shutdown(socket.SHUT_RDWR)
    websocket.close(1000, "maxTunnelDuration reached")


def _to_machine(websocket: ServerConnection, remote: socket.socket) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        for frame in websocket:
            remote.sendall(frame if isinstance(frame, bytes) else frame.encode())


def _to_client(remote: socket.socket, websocket: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        while data := remote.recv(_CHUNK):
            websocket.send(data)
    websocket.close(1000, "")
