"""Wait condition handles: the URLs to which signals are sent, and waits for them."""

from __future__ import annotations

import json
import secrets
import threading
import time
from dataclasses import dataclass

from werkzeug import Request, Response

from localcloud.cloudformation.errors import ResourceError

# The API's address in guests; the same path at the endpoint outside works too.
PATH = "/_localcloud/wait/"
BASE_URL = f"http://169.254.169.251{PATH}"
_POLL_S = 0.25


@dataclass(frozen=True)
class Signal:
    unique_id: str
    success: bool
    reason: str
    data: str


def parse(body: bytes) -> Signal:
    """A signal in the form of cfn-signal and `curl -T`. Raises ValueError for anything else."""
    message = json.loads(body)
    if not isinstance(message, dict) or message.get("Status") not in ("SUCCESS", "FAILURE"):
        raise ValueError('expected {"Status": "SUCCESS" | "FAILURE", "Reason", "UniqueId", "Data"}')
    data = message.get("Data", "")
    return Signal(
        unique_id=str(message.get("UniqueId") or secrets.token_hex(4)),
        success=message["Status"] == "SUCCESS",
        reason=str(message.get("Reason", "")),
        data=data if isinstance(data, str) else json.dumps(data),
    )


class Waits:
    """Signals by handle token. Only the first signal with a unique id counts."""

    def __init__(self) -> None:
        self._signals: dict[str, dict[str, Signal]] = {}
        self._changed = threading.Condition()
        self.base_url = BASE_URL

    def new_url(self) -> str:
        token = secrets.token_urlsafe(24)
        with self._changed:
            self._signals[token] = {}
        return self.base_url + token

    def forget(self, url: str) -> None:
        with self._changed:
            self._signals.pop(_token(url), None)

    def add(self, token: str, signal: Signal) -> bool:
        """False if there is no such handle (any more)."""
        with self._changed:
            if token not in self._signals:
                return False
            self._signals[token].setdefault(signal.unique_id, signal)
            self._changed.notify_all()
            return True

    def wait(self, url: str, count: int, timeout_s: float, cancelled: threading.Event) -> str | None:
        """The signals' data by unique id as JSON text, or None if cancelled. Raises on FAILURE."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                signals = list(self._signals.get(_token(url), {}).values())
                for signal in signals:
                    if not signal.success:
                        raise ResourceError(
                            f"WaitCondition received failed message: '{signal.reason}' for uniqueId: {signal.unique_id}"
                        )
                if len(signals) >= count:
                    return json.dumps({signal.unique_id: signal.data for signal in signals[:count]})
                if cancelled.is_set():
                    return None
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ResourceError(
                        f"WaitCondition timed out. Received {len(signals)} conditions when expecting {count}"
                    )
                self._changed.wait(min(left_s, _POLL_S))


def _token(url: str) -> str:
    return url.rsplit("/", 1)[-1].split("?", 1)[0]


WAITS = Waits()


def handle(request: Request) -> Response:
    """PUT /_localcloud/wait/<token>: the URL of a wait condition handle."""
    if request.method not in ("PUT", "POST"):
        return Response("wait handles take PUT\n", status=405, headers={"Allow": "PUT"})
    try:
        signal = parse(request.get_data())
    except ValueError as error:
        return Response(f"not a signal: {error}\n", status=400)
    if not WAITS.add(_token(request.path), signal):
        return Response("no such wait handle: its stack has been deleted or never existed\n", status=404)
    return Response(status=200)
