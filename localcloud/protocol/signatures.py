"""Verifies a request's signature: botocore's signers compute it again, with the secret that the cloud keeps.

Accepted: Signature Version 4 in the Authorization header and in presigned URLs, and Version 2 in presigned URLs of S3,
which boto3 still creates. The body must have the signed hash. If an S3 client signs no hash (UNSIGNED-PAYLOAD and the
STREAMING- forms), neither the body nor the signatures of its chunks are checked. Signature Version 4A, S3's POST
policies and calls without a signature are refused.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest, HTTPHeaders
from botocore.credentials import Credentials
from moto.core.request import PRESERVED_HEADER_NAMES_ENVIRON_KEY

from localcloud.protocol.credential_errors import Refused

CLOCK_SKEW = datetime.timedelta(minutes=15)
LONGEST_PRESIGNED_S = 7 * 24 * 3600
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<credential>[^,\s]+),\s*SignedHeaders=(?P<headers>[^,\s]+),"
    r"\s*Signature=(?P<signature>[0-9a-f]+)"
)
_HASH = re.compile(r"[0-9a-f]{64}")
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Held:
    """The cloud's record of an access key."""

    secret: str
    token: str = ""
    until: datetime.datetime | None = None


Lookup = Callable[[str], Held | None]


@dataclass(frozen=True)
class Received:
    """An HTTP request."""

    method: str
    target: str
    """Path and query, as the client sent them."""
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: Callable[[], bytes] = bytes

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True)
class _Claim:
    """The signature in a request, and its parameters."""

    key: str
    day: str
    region: str
    service: str
    headers: list[str]
    signature: str
    time: str
    token: str
    expires_s: int | None  # only presigned URLs have it


def verify(request: Received, lookup: Lookup) -> str:
    """The access key that signed the request. Raises Refused."""
    query = request.query
    if "AWSAccessKeyId" in query and "Signature" in query:
        return _verify_old(request, query, lookup)
    claim = _claim(request, query)
    if claim is None:
        raise Refused("missing")
    held = _held(claim.key, claim.token, lookup)
    _check_time(claim)
    if not hmac.compare_digest(_signature(request, claim, held), claim.signature):
        raise Refused("mismatch")
    stated = request.headers.get("x-amz-content-sha256", "")
    if _HASH.fullmatch(stated) and hashlib.sha256(request.body()).hexdigest() != stated:
        raise Refused("other-body")
    return claim.key


def _held(key: str, token: str, lookup: Lookup) -> Held:
    held = lookup(key)
    if held is None or not hmac.compare_digest(held.token.encode(), token.encode()):
        raise Refused("unknown-key")
    if held.until and held.until < datetime.datetime.now(datetime.UTC):
        raise Refused("token-expired")
    return held


def _claim(request: Received, query: Mapping[str, str]) -> _Claim | None:
    headers = request.headers
    if found := _HEADER.match(headers.get("authorization", "")):
        parts, names, signature = found["credential"].split("/"), found["headers"], found["signature"]
        time, token, expires = headers.get("x-amz-date", ""), headers.get("x-amz-security-token", ""), None
    elif query.get("X-Amz-Algorithm") == "AWS4-HMAC-SHA256" and "X-Amz-Signature" in query:
        parts, names = query.get("X-Amz-Credential", "").split("/"), query.get("X-Amz-SignedHeaders", "")
        signature, time = query["X-Amz-Signature"], query.get("X-Amz-Date", "")
        token, expires = query.get("X-Amz-Security-Token", ""), _seconds(query.get("X-Amz-Expires", ""))
    else:
        return None
    if len(parts) != 5 or parts[4] != "aws4_request" or "host" not in names.split(";"):
        raise Refused("incomplete")
    return _Claim(parts[0], parts[1], parts[2], parts[3], names.split(";"), signature, time, token, expires)


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= LONGEST_PRESIGNED_S:
        raise Refused("incomplete")
    return int(text)


def _check_time(claim: _Claim) -> None:
    try:
        signed = datetime.datetime.strptime(claim.time, _TIME).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise Refused("incomplete") from None
    if claim.time[:8] != claim.day:
        raise Refused("mismatch")
    now = datetime.datetime.now(datetime.UTC)
    if claim.expires_s is not None and now > signed + datetime.timedelta(seconds=claim.expires_s):
        raise Refused("expired", f"{claim.time}")
    if signed - now > CLOCK_SKEW or (claim.expires_s is None and now - signed > CLOCK_SKEW):
        raise Refused("skewed", f"{claim.time}", now.strftime(_TIME))


def _signature(request: Received, claim: _Claim, held: Held) -> str:
    headers = HTTPHeaders()
    for name in claim.headers:
        if name not in request.headers:
            raise Refused("mismatch")
        headers[name] = request.headers[name]
    kind = _S3Signer if claim.service == "s3" else _Signer
    signer = kind(Credentials(claim.key, held.secret), claim.service, claim.region)
    again = AWSRequest(method=request.method, url=_canonical(request.target), headers=headers)
    again.headers["X-Amz-Content-SHA256"] = _payload(request, claim)
    again.context |= {"timestamp": claim.time, "signed": headers}
    return str(signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again))


def _payload(request: Received, claim: _Claim) -> str:
    if stated := request.headers.get("x-amz-content-sha256"):
        return stated
    if claim.service == "s3":
        return "UNSIGNED-PAYLOAD"
    return hashlib.sha256(request.body()).hexdigest()


def _canonical(target: str) -> str:
    """The URL as the client signed it: its query in the signers' encoding, and without the signature."""
    path, _, query = target.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    named = [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]
    spelled = (f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in named if n != "X-Amz-Signature")
    return f"http://signed{path}?{'&'.join(spelled)}"


class _Signed:
    """Signs exactly the headers that the client signed; another version of botocore may sign others."""

    def headers_to_sign(self, request: Any) -> Any:
        return request.context["signed"]


class _Signer(_Signed, SigV4Auth):  # type: ignore[misc]
    pass


class _S3Signer(_Signed, S3SigV4Auth):  # type: ignore[misc]
    pass


class _OldSigner(HmacV1QueryAuth):  # type: ignore[misc]
    def __init__(self, credentials: Credentials, expires: str) -> None:
        super().__init__(credentials)
        self._date = expires

    def _get_date(self) -> str:
        return self._date


def _verify_old(request: Received, query: Mapping[str, str], lookup: Lookup) -> str:
    """Verifies a presigned URL of S3 with Signature Version 2."""
    key, expires, token = query["AWSAccessKeyId"], query.get("Expires", ""), query.get("x-amz-security-token", "")
    held = _held(key, token, lookup)
    headers = HTTPHeaders()
    for name, value in (*request.headers.items(), *query.items()):
        if (name.startswith("x-amz-") and name not in headers) or name in ("content-type", "content-md5"):
            headers[name] = value
    signer = _OldSigner(Credentials(key, held.secret, token or None), expires)
    wanted = signer.get_signature(request.method, urlsplit(request.target), headers)
    if not hmac.compare_digest(wanted, query["Signature"]):
        raise Refused("mismatch")
    if not expires.isdecimal() or int(expires) < datetime.datetime.now(datetime.UTC).timestamp():
        raise Refused("expired", expires)
    return key


AS_SENT = "localcloud.as-sent"
"""In a WSGI request that a layer above has changed: the request as the client signed it."""


def as_sent(environ: dict[str, Any]) -> Received:
    sent = environ.get(AS_SENT)
    return sent if isinstance(sent, Received) else received(environ)


def received(environ: dict[str, Any]) -> Received:
    """Converts a WSGI request. Its body can be read again afterwards."""
    original = environ.get(PRESERVED_HEADER_NAMES_ENVIRON_KEY, {})  # header names that contain an underscore
    headers = {
        original.get(name, name.removeprefix("HTTP_").replace("_", "-")).lower(): _text(value)
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    }
    # clients that use the cloud as a proxy send a whole URL
    target = re.sub(r"^https?://[^/]*", "", str(environ["RAW_URI"]))
    return Received(str(environ["REQUEST_METHOD"]), target, headers, lambda: _body(environ))


def _text(value: str) -> str:
    """Clients send UTF-8, which WSGI decodes as Latin-1."""
    return value.encode("latin-1").decode("utf-8", "replace")


def _body(environ: dict[str, Any]) -> bytes:
    length = environ.get("CONTENT_LENGTH")
    if not length and not environ.get("wsgi.input_terminated"):
        return b""
    stream = environ["wsgi.input"]
    body: bytes = stream.read(int(length)) if length else stream.read()
    environ["wsgi.input"] = io.BytesIO(body)
    return body
