"""The instance metadata service, version 2 only: a token first, then the tree of `imds_tree`."""

from __future__ import annotations

import http.server
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from localcloud.machines import imds_tree
from localcloud.machines.networks import listening
from localcloud.machines.spec import InstanceSpec, Metadata

LONGEST_TTL_S = 21600
SILENT_S = 0.5
ACTIVE_KEYS = re.compile(r"meta-data/managed-ssh-keys/active-keys/([^/]+)/?")
# The versions that clients ask for by name; all have the same content here.
VERSIONS = ("1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23", "latest")
_VERSION = re.compile(r"/(?:latest|1\.0|\d{4}-\d{2}-\d{2})(?:/|$)")

Lookup = Callable[[str], InstanceSpec | None]
Answer = tuple[int, str]


@dataclass
class Tokens:
    """Session tokens, each valid for one instance until it expires. Each request has a thread of its own."""

    clock: Callable[[], float] = time.monotonic
    _granted: dict[str, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def grant(self, instance_id: str, ttl_s: int) -> str:
        now, token = self.clock(), secrets.token_urlsafe(40)
        with self._lock:
            self._granted = {each: grant for each, grant in self._granted.items() if grant[1] > now}
            self._granted[token] = (instance_id, now + ttl_s)
        return token

    def allow(self, instance_id: str, token: str | None) -> bool:
        owner, expires = self._granted.get(token or "", ("", 0.0))
        return owner == instance_id and expires > self.clock()


def read(spec: InstanceSpec, metadata: Metadata, url_path: str) -> Answer:
    """The answer to a GET with a valid token."""
    if url_path.strip("/") == "":
        return 200, "\n".join(VERSIONS)
    version = _VERSION.match(url_path)
    if version is None:
        return 404, ""
    path = url_path[version.end() :]
    if keys := ACTIVE_KEYS.fullmatch(path):
        found = metadata.ssh_keys(spec.instance_id, keys[1])
        return (200, "\n".join((*found, ""))) if found else (404, "")
    text = imds_tree.listing_or_leaf(imds_tree.tree(spec, metadata), path)
    return (404, "") if text is None else (200, text)


def serve(listener: socket.socket, lookup: Lookup, metadata: Metadata, tokens: Tokens) -> http.server.HTTPServer:
    """Answers on a listening socket in its own thread until the server is shut down."""

    class Handler(_Handler):
        pass

    Handler.lookup, Handler.metadata, Handler.tokens = staticmethod(lookup), metadata, tokens
    return listening.serve(listener, Handler, "imds")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "EC2ws"
    sys_version = ""
    timeout = 30
    lookup: Lookup
    metadata: Metadata
    tokens: Tokens

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the API log has what matters, and a line for every metadata read would hide it."""

    def _client(self) -> InstanceSpec | None:
        """Waits as long as a fault keeps the service from answering. Clients give up before."""
        spec = self.lookup(self.client_address[0])
        while spec and self.metadata.has_no_metadata(spec.instance_id):
            time.sleep(SILENT_S)
        return spec

    def do_PUT(self) -> None:
        spec = self._client()
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token":
            self._send(404, "")
        elif spec is None or self.headers.get("X-Forwarded-For"):
            self._send(403, "")
        elif not ttl.isdigit() or not 1 <= int(ttl) <= LONGEST_TTL_S:
            self._send(400, "")
        else:
            token = self.tokens.grant(spec.instance_id, int(ttl))
            self._send(200, token, ("X-aws-ec2-metadata-token-ttl-seconds", ttl))

    def do_GET(self) -> None:
        spec = self._client()
        if spec is None or not self.tokens.allow(spec.instance_id, self.headers.get("X-aws-ec2-metadata-token")):
            self._send(401, "")
            return
        self._send(*read(spec, self.metadata, self.path.partition("?")[0]))

    do_HEAD = do_GET

    def _send(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        body = text.encode("latin-1") if _is_latin(text) else text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _is_latin(text: str) -> bool:
    """User data is bytes and is sent as Latin-1; only tags may contain other characters."""
    return all(ord(character) < 256 for character in text)
