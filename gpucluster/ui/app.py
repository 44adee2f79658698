"""The page's addresses. A page is a frame with parts; each part is HTML of its own, which the browser asks for again at
every beat of the stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gpucluster.errors import GpuClusterError
from gpucluster.head.arrays import JOB_ID
from gpucluster.ui import stream
from gpucluster.ui.guard import Guard
from gpucluster.ui.pages import render
from gpucluster.ui.reading import NotRead, Reader
from gpucluster.ui.views import bench, cluster, curves, history, job, money, storage

ASSETS = Path(__file__).with_name("assets")
Values = dict[str, Any]
Query = Mapping[str, str]
SECTIONS = {"cluster": "/", "jobs": "/jobs", "bench": "/bench", "storage": "/storage", "money": "/money"}

PARTS: Mapping[str, Callable[[Reader, Query], Values]] = {
    "cluster": lambda reader, query: cluster.context(reader),
    "jobs": history.context,
    "bench": bench.context,
    "storage": lambda reader, query: storage.context(reader),
    "money": money.context,
}
JOB_PARTS: Mapping[str, Callable[[Reader, str, Query], Values]] = {
    "summary": lambda reader, job_id, query: job.summary(reader, job_id),
    "why": lambda reader, job_id, query: job.why(reader, job_id),
    "log": job.log,
    "sweep": lambda reader, job_id, query: job.sweep(reader, job_id),
    "result": lambda reader, job_id, query: job.result(reader, job_id),
    "script": lambda reader, job_id, query: job.script(reader, job_id),
}


def guarded(reader: Reader, beat_s: float = stream.BEAT_S) -> Guard:
    """The application behind its guard."""
    site = Site(reader, beat_s)
    guard = Guard(site.app())
    site.form_key = guard.form_key
    return guard


@dataclass
class Site:
    reader: Reader
    beat_s: float
    form_key: str = ""

    def app(self) -> Starlette:
        routes = [
            *(Route(path, self._page(name)) for name, path in SECTIONS.items()),
            Route("/parts/{part}", self._part),
            Route("/jobs/{job_id}", self._job),
            Route("/jobs/{job_id}/parts/{part}", self._job_part),
            Route("/jobs/{job_id}/curves", self._curves),
            Route("/jobs/{job_id}/code/{path:path}", self._code),
            Route("/jobs/{job_id}/cancel", self._cancel, methods=["POST"]),
            Route("/beats", self._beats),
            Mount("/assets", StaticFiles(directory=ASSETS)),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._missing, Exception: self._broken})

    def _html(self, template: str, values: Values, status: int = 200) -> Response:
        source = self.reader.source
        shared = {"cluster": source.cluster, "may_write": source.may_write, "form_key": self.form_key}
        return HTMLResponse(_sendable(render(template, {**shared, "sections": SECTIONS, **values})), status)

    def _page(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def page(request: Request) -> Response:
            query = dict(request.query_params)
            part = await run_in_threadpool(self._first, f"parts/{name}.html", lambda reader: PARTS[name](reader, query))
            return self._html("page.html", {"section": name, "part": part, "query": request.url.query})

        return page

    async def _part(self, request: Request) -> Response:
        name = request.path_params["part"]
        if name not in PARTS:
            raise HTTPException(404, f"there is no part {name!r}")
        values = await run_in_threadpool(PARTS[name], self.reader, dict(request.query_params))
        return self._html(f"parts/{name}.html", values)

    async def _job(self, request: Request) -> Response:
        job_id, query = _job_id(request), dict(request.query_params)
        known = {
            name: await run_in_threadpool(
                self._first,
                f"parts/{name}.html",
                lambda reader, view=view: view(reader, job_id, query),  # type: ignore[misc]
            )
            for name, view in JOB_PARTS.items()
            if name in ("summary", "why")
        }
        return self._html("job.html", {"section": "jobs", "job_id": job_id, "known": known, "query": query})

    async def _job_part(self, request: Request) -> Response:
        job_id, name = _job_id(request), request.path_params["part"]
        if name not in JOB_PARTS:
            raise HTTPException(404, f"there is no part {name!r}")
        values = await run_in_threadpool(JOB_PARTS[name], self.reader, job_id, dict(request.query_params))
        return self._html(f"parts/{name}.html", values)

    async def _curves(self, request: Request) -> Response:
        node = request.query_params.get("node", "")
        found = await run_in_threadpool(curves.charts, self.reader, _job_id(request), node)
        return Response(json.dumps(found, allow_nan=False), media_type="application/json")

    async def _code(self, request: Request) -> Response:
        job_id, path = _job_id(request), request.path_params["path"]
        answer = await run_in_threadpool(self.reader.code, job_id, path)
        return self._html("code.html", {"section": "jobs", "job_id": job_id, "path": path, "answer": answer})

    async def _cancel(self, request: Request) -> Response:
        """A form of ours, of our origin: it has the key that only our pages show."""
        job_id, form = _job_id(request), dict(parse_qsl((await request.body()).decode(errors="replace")))
        if not self.reader.source.may_write:
            raise HTTPException(403, "this page only reads: `gpucluster ui --write` can cancel jobs")
        if form.get("form_key") != self.form_key or "origin" not in request.headers:
            raise HTTPException(403, "this form is not from this page: open the job again")
        try:
            await run_in_threadpool(self.reader.source.cancel, job_id)
        except GpuClusterError as error:
            raise HTTPException(502, error.message) from None
        for key in ("overview", "history", ("job", job_id), ("why", job_id)):
            self.reader.answers.forget(key)
        return RedirectResponse(f"/jobs/{job_id}", 303)

    async def _beats(self, request: Request) -> Response:
        return stream.stream(self.reader.overview, self.beat_s)

    async def _missing(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._html("missing.html", {"section": "", "words": error.detail}, error.status_code)

    async def _broken(self, request: Request, error: Exception) -> Response:
        """A part with a bug leaves the others. `--debug` shows the traceback on stderr."""
        words = (
            f"unexpected {type(error).__name__}: {error}; `gpucluster --debug ui` shows more: report this bug with it"
        )
        return HTMLResponse(_sendable(Markup('<p class="lacks" role="alert">{}</p>').format(words)), 500)

    def _first(self, template: str, view: Callable[[Reader], Values]) -> Markup | None:
        """What is known already: the page appears at once, and asks for the rest. None: nothing yet."""
        try:
            values = view(replace(self.reader, waits=False))
        except NotRead:
            return None
        return Markup(
            render(template, {"may_write": self.reader.source.may_write, "form_key": self.form_key, **values})
        )


def _sendable(text: str) -> bytes:
    """JSON of a job may have halves of surrogate pairs, which UTF-8 has not."""
    return text.encode(errors="replace")


def _job_id(request: Request) -> str:
    job_id: str = request.path_params["job_id"]
    if not JOB_ID.fullmatch(job_id):
        raise HTTPException(404, f"{job_id!r} is not a job ID such as 12, or 12_3 for an element of an array")
    return job_id
