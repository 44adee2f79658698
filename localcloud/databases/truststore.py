"""https://truststore.pki.rds.amazonaws.com inside VPCs: the authorities that sign databases' certificates.

AWS has it on the internet, and so it is reached here from subnets that have a way out.
"""

from __future__ import annotations

import re
import socket
import threading

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from localcloud.identity import authority
from localcloud.machines.networks.addressing import TRUSTSTORE_ADDRESS

HOST = "truststore.pki.rds.amazonaws.com"
ENDPOINT = (TRUSTSTORE_ADDRESS, 443)
_BUNDLE = re.compile(r"/([a-z0-9-]+)/\1-bundle\.pem")


class _Handler(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """It is no API of AWS's, and api.jsonl does not hold it."""


@Request.application
def answer(request: Request) -> Response:
    """/global/global-bundle.pem, or a region's: all databases of the cloud have one authority."""
    if _BUNDLE.fullmatch(request.path):
        return Response(authority.rds().certificate, mimetype="application/x-pem-file")
    return Response("not found\n", status=404)


def serve(listener: socket.socket) -> BaseWSGIServer:
    """Answer on a listening socket in a thread of its own."""
    context = authority.server_context(authority.web().issue(HOST))
    server = make_server(
        *ENDPOINT, answer, threaded=True, request_handler=_Handler, ssl_context=context, fd=listener.fileno()
    )
    threading.Thread(target=server.serve_forever, args=(0.1,), name="truststore", daemon=True).start()
    return server


def resolve(name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`."""
    if name != HOST:
        return None
    return [TRUSTSTORE_ADDRESS] if record_type == "A" else []
