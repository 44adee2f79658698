"""Who may read the page: the browser that was given the address, on this machine.

Every program and every user of a machine can connect to its loopback, and so can each web page that its browsers show.
Therefore the address has a token, which is exchanged once for a cookie; Host is checked, because a foreign name may be
made to mean 127.0.0.1 (DNS rebinding); and Origin and Sec-Fetch-Site are, because a foreign page may send requests
here. A port is no border for cookies (RFC 6265, 8.5): pages of other servers on loopback are of the same site, but not
of the same origin.
"""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "img-src 'self' data:; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer, a form's Origin would be null (Fetch, 3.2.1)
    "X-Content-Type-Options": "nosniff",
}
# A page of ours goes on to the page that was asked for: after a redirect, the browser would still count the request as
# that of the page with the link, and withhold a SameSite=Strict cookie (RFC 6265bis, 5.2).
_ENTERED = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
    '<title>GpuCluster</title><link rel="icon" href="data:,">'
)
_USED = "this address has been used already: it opens one browser; run `gpucluster ui` again for another one\n"
_NO_TOKEN = "this page needs the address that `gpucluster ui` has printed, with its token\n"


class Guard:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.token, self._session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._entered = False
        self._cookie = f"gpucluster_{secrets.token_hex(4)}"  # another page of ours on this machine has one too

    @property
    def form_key(self) -> str:
        """What a form of ours sends along: no foreign page can read it."""
        return hmac.digest(self._session.encode(), b"form", "sha256").hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        answer = self._refusal(scope) if scope["type"] == "http" else PlainTextResponse("not here\n", 403)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """None: the request may pass. The answer to the token is no refusal, but ends here too."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if _name(host) not in LOOPBACK:
            return PlainTextResponse(f"the host must be {', '.join(sorted(LOOPBACK))}\n", 403)
        if origin is not None and origin != f"http://{host}":
            return PlainTextResponse("a page of another origin may not ask here\n", 403)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
        if _same(_value(headers, self._cookie), self._session):
            if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not _is_link(headers):
                return PlainTextResponse("a page of another site may not ask here\n", 403)
            return HTMLResponse(_ENTERED) if given else None
        if given and _same(given, self.token):
            return self._enter()
        return PlainTextResponse(_NO_TOKEN, 403)

    def _enter(self) -> Response:
        if self._entered:
            return PlainTextResponse(_USED, 403)
        self._entered = True
        answer = HTMLResponse(_ENTERED)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer


def _name(host: str) -> str:
    """Without the port, which is another one behind `ssh -L`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _value(headers: Headers, cookie: str) -> str:
    """Other servers on this machine's loopback may have set cookies of any form, such as JSON. http.cookies gives up at
    the first that is not as in RFC 6265, and with it ours."""
    return cookie_parser(headers.get("cookie", "")).get(cookie, "")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _is_link(headers: Headers) -> bool:
    """Someone followed a link to the page, which shows it to them alone."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
