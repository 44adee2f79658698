"""The API server: moto behind a layer that checks permissions, applies faults, logs, and adds what moto lacks."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Iterable
from typing import Any

from werkzeug import Request, Response
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.test import run_wsgi_app

from localcloud.api import doors, reachability
from localcloud.api.control_plane import ControlPlane, Environ, StartResponse, WsgiApp
from localcloud.api.routes import Routes
from localcloud.clients import ACCOUNT_ID
from localcloud.identity import authorization
from localcloud.identity.roles import Session
from localcloud.protocol import answers, calls, credential_errors, signatures
from localcloud.protocol.credential_errors import Refused
from localcloud.services import dlm, parameters
from localcloud.validation import check, idempotency, tokens
from localcloud.validation.refusal import Refusal

_LAUNCHES = ("RunInstances", "CreateFleet")


class Application:
    """WSGI application of the whole cloud. Guests get a second one without the cloud's own routes."""

    def __init__(
        self, plane: ControlPlane, routes: Routes | None, hosts: tuple[str, ...] = (), *, on_internet: bool = False
    ) -> None:
        """`hosts`: names of the server, if they are not those of loopback. `on_internet`: only packets that have a
        route to the internet arrive."""
        self._plane = plane
        self._locks = plane.runtime.locks
        self._routes = routes
        self._inside = routes is None and not on_internet
        self._hosts = hosts

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if refusal := doors.refuses(str(environ.get("HTTP_HOST", "")), environ.get("HTTP_ORIGIN"), self._hosts):
            return Response(f"{refusal}\n", status=403)(environ, start_response)
        if path.startswith("/_localcloud/"):
            return self._own(Request(environ), path)(environ, start_response)
        if path.startswith("/moto-api"):  # moto's own routes, which reset the cloud without asking for credentials
            return Response("not found\n", status=404)(environ, start_response)
        call = calls.identify(environ)
        session, decision = None, authorization.Decision()
        try:
            key = signatures.verify(signatures.as_sent(environ), self._plane.keys.held)
            parameters.seed(self._locks, call.region)
            with self._locks.holding(call.service, call.action):
                session = self._plane.keys.session_of(key)
                decision = self._plane.judge.judge(call, session)
            response = self._plane.runtime.pace.answer(call, lambda: self._answer(call, session, decision, environ))
        except Refused as error:
            response = credential_errors.answer(call, error)
        except NotImplementedError as error:
            message = f"the local cloud does not know this call: {error or f'{call.service}:{call.action}'}"
            response = answers.error(call, "InvalidAction", message, status=400)
        except Exception as error:  # a defect of ours or of moto's: tell the caller, log the traceback, continue
            traceback.print_exc(file=sys.stderr)
            response = answers.error(call, "InternalError", f"{type(error).__name__}: {error}", status=500)
        self._record(call, session, decision, response)
        return response(environ, start_response)

    def _own(self, request: Request, path: str) -> Response:
        if path.startswith("/_localcloud/wait/"):
            from localcloud.cloudformation import waits

            return waits.handle(request)
        if self._routes and not doors.is_owners(*_ends(request.environ)):
            return Response("these routes are for the user who runs this cloud, and for root\n", status=403)
        return self._routes.answer(request) if self._routes else Response("not found\n", status=404)

    def _answer(
        self, call: calls.Call, session: Session | None, decision: authorization.Decision, environ: Environ
    ) -> Response:
        try:
            return self._served(call, session, decision, environ)
        except Refusal as refusal:
            return answers.error(call, refusal.code, refusal.message, status=refusal.status)

    def _served(
        self, call: calls.Call, session: Session | None, decision: authorization.Decision, environ: Environ
    ) -> Response:
        faults = self._plane.runtime.faults
        if session and faults.expired(session.name):
            raise Refused("token-expired")
        if faults.unavailable(call.service, call.action):
            return answers.unavailable(call)
        if faults.throttled(call.service, call.action):
            return answers.throttled(call)
        if self._inside:
            with self._locks.whole:
                lacks = reachability.missing(call, session)
            if lacks:
                return answers.error(call, "EndpointUnreachable", f"no route to the endpoint: {lacks}", status=503)
        if decision.denial and decision.denial.refusal:
            raise Refusal(*decision.denial.refusal)
        if decision.denial:
            return answers.denied(call, str(decision.denial))
        check.check(call, environ, self._locks)
        if call.service == "cloudformation":  # it calls the API again, so it must not hold the lock
            from localcloud.cloudformation import api

            return api.handle(Request(environ), self._plane.cloudformation)
        if call.service == "dlm":
            return dlm.handle(Request(environ), call.region, ACCOUNT_ID)
        authorization.LATE_DENIAL.set(decision.late_denial)
        with self._locks.holding(call.service, call.action):
            body, status, headers = run_wsgi_app(self._plane.moto, environ, buffered=True)
            # not joined, because an answer to HEAD would get a length of 0
            kept = [(name, value) for name, value in headers if not name.lower().startswith("access-control-")]
            response = Response(list(body), status, kept)
            tokens.remember(call, response.get_data)
            if response.status_code < 300:
                idempotency.remember(call)
            if (call.service, call.action) == ("sts", "AssumeRole"):
                self._plane.sessions.assumed(session, call.form, response.get_data(as_text=True))
            return response

    def _record(
        self, call: calls.Call, session: Session | None, decision: authorization.Decision, response: Response
    ) -> None:
        failed = response.status_code >= 400
        body = response.get_data() if failed or call.action in _LAUNCHES else b""
        named = "\n".join(call.form.values()).encode() + call.body
        made = b"" if failed else body  # an error's text may name the caller
        self._plane.log.add(
            service=call.service,
            action=call.action,
            caller=session.name if session else call.access_key_id,
            status=response.status_code,
            error=answers.error_code(response.status_code, body),
            instance_ids=answers.instance_ids(named + b"\n" + made),
            **(_judged(session, decision) if session else {}),
        )


def _judged(session: Session, decision: authorization.Decision) -> dict[str, Any]:
    """For a role's call: the role, and every permission that it needed."""
    checks = [{"action": check.action, "resource": check.resource, "keys": check.keys} for check in decision.checks]
    return {"role": session.role_name, "checks": checks, "denied": decision.denial is not None}


def _ends(environ: Environ) -> tuple[tuple[str, int], tuple[str, int]]:
    """The two addresses of a request's connection: the client's and the server's."""
    connection: socket.socket = environ["werkzeug.socket"]
    return connection.getpeername(), connection.getsockname()


def serve(app: WsgiApp, listener: socket.socket, context: ssl.SSLContext | None = None) -> BaseWSGIServer:
    """Serves `app` on a listening socket in its own thread; with a context over TLS."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler

    class QuietHandler(MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Werkzeug logs nothing, because api.jsonl has every call."""

    address, port = listener.getsockname()[:2]
    server = make_server(
        address, port, app, threaded=True, request_handler=QuietHandler, ssl_context=context, fd=listener.fileno()
    )
    if isinstance(server.socket, ssl.SSLSocket):  # a client that sends nothing must not keep the others waiting
        server.socket.do_handshake_on_connect = False  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.1,), name=f"api-{address}", daemon=True).start()
    return server
