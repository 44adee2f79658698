"""The beat: one stream of server-sent events for a browser, which tells its tabs to ask for what they show.

A browser has six connections to a server (HTTP/1.1), so a shared worker holds the stream for all tabs
(assets/worker.js). The event has no content of users: how old the newest overview is, and what hinders a newer one.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from gpucluster.ui.answers import Answer

BEAT_S = 5.0


def stream(overview: Callable[[], Answer[Any]], beat_s: float = BEAT_S) -> StreamingResponse:
    return StreamingResponse(_beats(overview, beat_s), media_type="text/event-stream")


async def _beats(overview: Callable[[], Answer[Any]], beat_s: float) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    while True:  # until the browser closes the stream: Starlette cancels it then
        answer = await run_in_threadpool(overview)
        age_s = round(time.time() - answer.at_s, 1) if answer.value is not None else None
        said = {"age_s": age_s, "problem": answer.problem, "hint": answer.hint}
        yield f"event: beat\ndata: {json.dumps(said)}\n\n"
        await anyio.sleep(beat_s)
