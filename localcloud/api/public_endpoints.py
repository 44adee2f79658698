"""AWS's APIs under AWS's names, over HTTPS, for guests whose packets have a route to the internet."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from functools import lru_cache

from localcloud.api.control_plane import Environ, StartResponse, WsgiApp
from localcloud.guests.public_names import bucket_of, is_name
from localcloud.identity import authority
from localcloud.machines.networks.addressing import API_ADDRESS, PUBLIC_ADDRESS
from localcloud.protocol import signatures

ENDPOINT = (PUBLIC_ADDRESS, 443)


class Renamed:
    """Gives `app` each request in the form that it has under the API's own address: SDKs put a bucket before a name,
    and behind an address."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", "")).lower().removesuffix(":443")
        if is_name(host):
            environ[signatures.AS_SENT] = signatures.received(environ)
            environ["HTTP_HOST"] = API_ADDRESS
            if bucket := bucket_of(host):
                for key in ("PATH_INFO", "RAW_URI", "REQUEST_URI"):
                    environ[key] = f"/{bucket}{environ.get(key, '/')}"
        return self._app(environ, start_response)


def context() -> ssl.SSLContext:
    """It has a certificate for each name that clients ask for."""
    of = lru_cache(maxsize=256)(lambda name: authority.server_context(authority.web().issue(name)))
    first = of("amazonaws.com")

    def choose(connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            connection.context = of(name)

    first.sni_callback = choose
    return first
