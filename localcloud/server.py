"""The API server: moto behind a layer that dispatches what moto does not do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug import Request, Response
from werkzeug.serving import BaseWSGIServer, make_server

from localcloud import calls

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class Application:
    """WSGI application of the whole cloud."""

    def __init__(self, moto_app: WsgiApp) -> None:
        self._moto = moto_app
        self._moto_lock = threading.RLock()  # moto's backends are plain dictionaries

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if str(environ.get("PATH_INFO", "")).startswith("/_localcloud/"):
            return self._own(Request(environ))(environ, start_response)
        call = calls.identify(environ)
        if call.service == "cloudformation":
            return _cloudformation(Request(environ))(environ, start_response)
        with self._moto_lock:
            return list(self._moto(environ, start_response))

    def _own(self, request: Request) -> Response:
        if request.path.startswith("/_localcloud/wait/"):
            from localcloud.cloudformation import waits

            return waits.handle(request)
        if request.path == "/_localcloud/status":
            return Response('{"instances": []}', content_type="application/json")
        return Response("not found\n", status=404)


def _cloudformation(request: Request) -> Response:
    from localcloud.cloudformation import api

    return api.handle(request)


def serve(app: WsgiApp, listener: socket.socket) -> BaseWSGIServer:
    """Serve `app` on a listening socket in a thread of its own."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler

    class QuietHandler(MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """api.jsonl holds every call."""

    address, port = listener.getsockname()[:2]
    server = make_server(address, port, app, threaded=True, request_handler=QuietHandler, fd=listener.fileno())
    threading.Thread(target=server.serve_forever, name=f"api-{address}", daemon=True).start()
    return server
