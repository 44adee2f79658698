"""The page of `gpucluster ui` as it is served: uvicorn on a port of loopback, with recorded data."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.types import Receive, Scope, Send

from gpucluster.ui import app, server
from gpucluster.ui.answers import Answers
from gpucluster.ui.cluster import ClusterSource
from gpucluster.ui.guard import Guard
from gpucluster.ui.reading import Reader
from localcloud.testing.patience import wait_for
from tests.recorded_cluster import RecordedCluster


@dataclass
class Answer:
    status: int
    text: str
    headers: Mapping[str, str]


@dataclass
class Browser:
    """Asks as a browser would, with the cookie that it got."""

    port: int
    guard: Guard
    source: Any
    answers: Answers
    streams: list[str]
    """An entry for each stream of events that is open now."""
    cookie: str = ""

    def ask(self, path: str, form: Mapping[str, str] | None = None, **headers: str | None) -> Answer:
        """Headers by their names with underscores; None removes one."""
        sent = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        if form is not None:
            sent |= {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/x-www-form-urlencoded"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}  # type: ignore[dict-item]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name: value for name, value in sent.items() if value is not None}
        connection.putrequest("GET" if form is None else "POST", path, skip_host=True)
        body = urlencode(form or {}).encode()
        for name, value in {**given, **({"Content-Length": str(len(body))} if form is not None else {})}.items():
            connection.putheader(name, value)
        connection.endheaders(body if form is not None else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Answer(answer.status, text, {name.lower(): value for name, value in answer.getheaders()})

    def enter(self) -> Answer:
        answer = self.ask(f"/?token={self.guard.token}")
        if found := re.match(r"[^;]+", answer.headers.get("set-cookie", "")):
            self.cookie = found[0]
        return answer


@contextmanager
def served(source: RecordedCluster | ClusterSource, beat_s: float = 0.05) -> Iterator[Browser]:
    answers = Answers()
    guard = app.guarded(Reader(source, answers), beat_s)
    streams: list[str] = []

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = scope.get("path") == "/beats"
        streams.extend(["open"] * is_stream)
        try:
            await guard(scope, receive, send)
        finally:
            del streams[: int(is_stream)]

    listener = server.listen(None)
    running = uvicorn.Server(server.config(counted))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for("the page's server", lambda: running.started, 20, 0.02)
    yield Browser(listener.getsockname()[1], guard, source, answers, streams)
    running.should_exit = True
    thread.join(20)
    assert not thread.is_alive()
