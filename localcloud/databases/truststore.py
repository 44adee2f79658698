"""https://truststore.pki.rds.amazonaws.com inside VPCs: the authorities that sign databases' certificates.

On AWS it is on the internet, so here only subnets with a route to the internet reach it.
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
        """Logs nothing: this is no AWS API, so its requests do not belong in api.jsonl."""


@Request.application
def answer(request: Request) -> Response:
    """Serves /global/global-bundle.pem and the regions' bundles; all databases of the cloud have one authority."""
    if _BUNDLE.fullmatch(request.path):
        return Response(authority.rds().certificate, mimetype="application/x-pem-file")
    return Response("not found\n", status=404)


def serve(listener: socket.socket) -> BaseWSGIServer:
    """Answers on a listening socket in its own thread."""
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
