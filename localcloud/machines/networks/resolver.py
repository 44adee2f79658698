"""The VPC's resolver: answers private zones and instance names from the control plane, and forwards other names."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

TTL_S = 5  # nodes, and so their names, come and go
UPSTREAM_TIMEOUT_S = 3.0
LONGEST_UDP_ANSWER = 1232
_LONGEST_CHAIN = 8

Resolve = Callable[[str, str], list[str] | None]
Forward = Callable[[bytes, bool], bytes]


def answer(wire: bytes, resolve: Resolve, forward: Forward, *, tcp: bool = False) -> bytes | None:
    """The reply to one query, or None if it is not a query."""
    try:
        query = dns.message.from_wire(wire)
    except dns.exception.DNSException:
        return None
    if not query.question:
        return None
    question = query.question[0]
    name = question.name.to_text(omit_final_dot=True).lower()
    found = _lookup(name, dns.rdatatype.to_text(question.rdtype), resolve)
    if found is None:
        return forward(wire, tcp)
    response = dns.message.make_response(query, recursion_available=True)
    response.flags |= dns.flags.AA
    response.answer.extend(found)
    return _to_wire(response, tcp)


def _lookup(name: str, record_type: str, resolve: Resolve) -> list[dns.rrset.RRset] | None:
    """The records of a name, following aliases inside our zones; None if the name is not ours."""
    values = resolve(name, record_type)
    if values is None:
        return None
    chain: list[dns.rrset.RRset] = []
    while not values and record_type != "CNAME" and len(chain) < _LONGEST_CHAIN:
        alias = resolve(name, "CNAME")
        if not alias:
            return chain
        chain.append(_rrset(name, "CNAME", alias[:1]))
        name = alias[0].rstrip(".").lower()
        values = resolve(name, record_type) or []
    return [*chain, _rrset(name, record_type, values)] if values else chain


def _rrset(name: str, record_type: str, values: Sequence[str]) -> dns.rrset.RRset:
    texts = [_quoted(value) for value in values] if record_type == "TXT" else values
    return dns.rrset.from_text(f"{name}.", TTL_S, dns.rdataclass.IN, record_type, *texts)


def _quoted(text: str) -> str:
    """A TXT value in zone file form: strings of at most 255 characters."""
    parts = [text[start : start + 255] for start in range(0, len(text), 255)] or [""]
    escaped = (part.replace("\\", "\\\\").replace('"', '\\"') for part in parts)
    return " ".join(f'"{part}"' for part in escaped)


def _to_wire(response: dns.message.Message, tcp: bool) -> bytes:
    try:
        return response.to_wire(max_size=65535 if tcp else LONGEST_UDP_ANSWER)
    except dns.exception.TooBig:
        response.answer.clear()
        response.flags |= dns.flags.TC
        return response.to_wire()


def failure(wire: bytes) -> bytes:
    response = dns.message.make_response(dns.message.from_wire(wire), recursion_available=True)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response.to_wire()


def host_nameservers(resolv_conf: Path = Path("/etc/resolv.conf")) -> list[str]:
    """IPv4 nameservers of this machine. systemd-resolved's stub answers only the host, on which this process is."""
    rows = [line.split() for line in resolv_conf.read_text().splitlines()]
    return [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver" and ":" not in row[1]]


def forward_to(nameservers: Sequence[str]) -> Forward:
    def forward(wire: bytes, tcp: bool) -> bytes:
        for server in nameservers:
            try:
                return _ask_tcp(server, wire) if tcp else _ask_udp(server, wire)
            except OSError:
                continue
        return failure(wire)

    return forward


def _ask_udp(server: str, wire: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
        upstream.settimeout(UPSTREAM_TIMEOUT_S)
        upstream.connect((server, 53))
        upstream.send(wire)
        while (reply := upstream.recv(65535))[:2] != wire[:2]:
            continue
        return reply


def _ask_tcp(server: str, wire: bytes) -> bytes:
    with socket.create_connection((server, 53), timeout=UPSTREAM_TIMEOUT_S) as upstream:
        upstream.sendall(struct.pack("!H", len(wire)) + wire)
        return _read_message(upstream)


def _read_message(stream: socket.socket) -> bytes:
    (length,) = struct.unpack("!H", _read_exactly(stream, 2))
    return _read_exactly(stream, length)


def _read_exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = stream.recv(size - len(data))
        if not chunk:
            raise ConnectionError("name server closed the connection early")
        data += chunk
    return data


class Resolver:
    """Answers on any number of sockets with one listening thread and a few threads that wait for upstream."""

    def __init__(self, forward: Forward, delay_s: Callable[[], float] = lambda: 0.0) -> None:
        """delay_s: how much later than at once a query is answered."""
        self._forward = forward
        self._delay_s = delay_s
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="dns")
        self._selector = selectors.DefaultSelector()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="dns", daemon=True)
        self._thread.start()

    def serve(self, bound: socket.socket, resolve: Resolve) -> None:
        """Answers on a UDP socket or a listening TCP socket."""
        bound.setblocking(False)
        self._selector.register(bound, selectors.EVENT_READ, resolve)

    def leave(self, bound: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(bound)
        bound.close()

    def _listen(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(timeout=0.5):
                bound = key.fileobj
                assert isinstance(bound, socket.socket)
                self._take(bound, key.data)

    def _take(self, bound: socket.socket, resolve: Resolve) -> None:
        try:
            if bound.type == socket.SOCK_DGRAM:
                wire, sender = bound.recvfrom(65535)
                self._soon(self._reply_udp, bound, wire, sender, resolve)
            else:
                connection, _ = bound.accept()
                self._soon(self._reply_tcp, connection, resolve)
        except OSError:
            return

    def _soon(self, reply: Callable[..., None], *arguments: object) -> None:
        """A query that waits takes no thread from the others."""
        if not (delay_s := self._delay_s()):
            self._pool.submit(reply, *arguments)
            return
        timer = threading.Timer(delay_s, self._late, (reply, *arguments))
        timer.daemon = True
        timer.start()

    def _late(self, reply: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the resolver was closed meanwhile
            self._pool.submit(reply, *arguments)

    def _reply_udp(self, bound: socket.socket, wire: bytes, sender: tuple[str, int], resolve: Resolve) -> None:
        reply = self._answer(wire, resolve, tcp=False)
        if reply is not None:
            with contextlib.suppress(OSError):  # the VPC may have ended meanwhile
                bound.sendto(reply, sender)

    def _reply_tcp(self, connection: socket.socket, resolve: Resolve) -> None:
        with connection, contextlib.suppress(OSError):  # the client may have closed the connection
            connection.settimeout(UPSTREAM_TIMEOUT_S)
            reply = self._answer(_read_message(connection), resolve, tcp=True)
            if reply is not None:
                connection.sendall(struct.pack("!H", len(reply)) + reply)

    def _answer(self, wire: bytes, resolve: Resolve, *, tcp: bool) -> bytes | None:
        """An error of the control plane becomes SERVFAIL for the guest, which retries, and a traceback in our log."""
        try:
            return answer(wire, resolve, self._forward, tcp=tcp)
        except Exception:  # noqa: BLE001 - whatever it is, the guest must hear something
            traceback.print_exc()
            return failure(wire)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._selector.close()
