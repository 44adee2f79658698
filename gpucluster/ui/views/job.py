"""One job: where its seconds went, why, its ranks, log, curves, result, script and code."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucluster.following.arrays import Element, table
from gpucluster.ui import drawing
from gpucluster.ui.reading import Reader
from gpucluster.ui.source import Job

if TYPE_CHECKING:
    from gpucluster.following.logs import Selection
    from gpucluster.following.timeline import Span

TAIL = 300
MOST_TAIL = 5000
LONGEST_LINE = 1900
"""Bytes of a line of the log, so that it fits into wording.LONGEST_LINE with what is said of its length."""
MOST_LINES = 500
"""Elements in a picture; a table has all."""
_LONGEST = 200_000
"""Characters of a result that a page shows."""


@dataclass(frozen=True)
class Rank:
    """The ranks of one node."""

    node: str
    ranks: str
    failed: str
    """The rank that failed first, in words."""


def summary(reader: Reader, job_id: str) -> dict[str, Any]:
    """The job's state, its timeline and its ranks."""
    answer, spans = reader.job(job_id), reader.timeline(job_id)
    job, drawn = answer.value, timeline(spans.value or ())
    return {
        "answer": answer,
        "job": job,
        "job_id": job_id,
        "spans": spans,
        "drawn": drawn,
        "seconds": sum(bar[1] for bar in drawn),
        "ranks": ranks(job) if job else (),
    }


def timeline(spans: Sequence[Span]) -> list[tuple[Span, float, drawing.Bar]]:
    """Each with its seconds so far."""
    now_s = time.time()
    ends = [(span.start_s, max(span.start_s, now_s if span.end_s is None else span.end_s)) for span in spans]
    return [(span, end - start, bar) for span, (start, end), bar in zip(spans, ends, drawing.bars(ends), strict=True)]


def ranks(job: Job) -> list[Rank]:
    """In the order of the nodes, whose ranks follow one another, if their number is known."""
    result = job.result or {}
    per_node = job.ranks // len(job.node_list) if job.node_list else 0
    failed, where = result.get("failed_rank"), result.get("failed_node")
    return [
        Rank(
            node,
            _range(at * per_node, per_node),
            f"rank {failed} failed first" if failed is not None and node == where else "",
        )
        for at, node in enumerate(job.node_list)
    ]


def _range(first: int, count: int) -> str:
    if count < 2:
        return str(first) if count else ""
    return f"{first}–{first + count - 1}"


def why(reader: Reader, job_id: str) -> dict[str, Any]:
    return {"answer": reader.why(job_id)}


def selection(query: Mapping[str, str]) -> Selection:
    """What the form asks for; anything else is as if it were empty."""
    from gpucluster.following.logs import Selection

    tail = query.get("tail", "")
    return Selection(
        rank=_rank(query.get("rank", "")),
        node=query.get("node", "")[:100] or None,
        grep=query.get("grep", "")[:200] or None,
        longest=LONGEST_LINE,
        tail=min(MOST_TAIL, int(tail)) if _is_number(tail) else TAIL,
        launcher=query.get("launcher") == "on",
    )


def _rank(text: str) -> Any:
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8


def log(reader: Reader, job_id: str, query: Mapping[str, str]) -> dict[str, Any]:
    return {"answer": reader.log(job_id, selection(query)), "tail": selection(query).tail}


def sweep(reader: Reader, job_id: str) -> dict[str, Any]:
    answer = reader.elements(job_id)
    found = answer.value or ()
    rows = table(found)
    return {"answer": answer, "heading": rows[0], "rows": rows[1:], "elements": found, "picture": picture(found)}


def picture(found: Sequence[Element]) -> drawing.Parallel | None:
    """None if there is nothing to compare."""
    shown = found[:MOST_LINES]
    parameters = list(dict.fromkeys(name for each in shown for name in each.parameters))
    metrics = list(dict.fromkeys(name for each in shown for name in each.metrics))
    columns = {name: [str(each.parameters.get(name, "")) for each in shown] for name in parameters}
    columns |= {name: [_text(each.metrics.get(name)) for each in shown] for name in metrics}
    if len(columns) < 2 or len(shown) < 2:
        return None
    return drawing.parallel(columns, [_label(each) for each in shown])


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _label(element: Element) -> str:
    values = {
        **element.parameters,
        **{name: f"{value:g}" for name, value in element.metrics.items() if value is not None},
    }
    return f"{element.job_id}, {element.state}: " + ", ".join(f"{name} {value}" for name, value in values.items())


def result(reader: Reader, job_id: str) -> dict[str, Any]:
    answer = reader.job(job_id)
    job = answer.value
    found = job.result if job else None
    text = json.dumps(found, indent=2, ensure_ascii=False)[:_LONGEST] if found else ""
    summary = (job.summary if job else None) or {}
    return {
        "answer": answer,
        "text": text,
        "metrics": _metrics(found or {}),
        "job": job,
        "summary": summary,
        "gpus": [row for node in summary.get("nodes", ()) for row in _gpus(node)][:MOST_LINES],
        "columns": list(USE),
    }


USE = {
    "GPU %": ("util_percent", "mean"),
    "95 of 100": ("util_percent", "p95"),
    "GiB at most": ("memory_gib", "max"),
    "W": ("power_w", "mean"),
    "°C at most": ("temperature_c", "max"),
}
"""Heading -> value and kind of usage.json (bootstrap/gpucluster_node/watch/jobs.py)."""


def _gpus(node: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """Each GPU of a node, with a value for each heading; None if there is none. The job's user may have changed it."""
    given = (gpu for gpu in node.get("gpus", ()) if isinstance(gpu, dict))
    return [
        (f"{node.get('node', '')} GPU {gpu.get('index', '')}", [_part(gpu, name, kind) for name, kind in USE.values()])
        for gpu in given
    ]


def _part(gpu: Mapping[str, Any], name: str, kind: str) -> Any:
    found = gpu.get(name)
    return found.get(kind) if isinstance(found, dict) else None


def _metrics(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The job's user can write into the file."""
    found = result.get("metrics")
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def script(reader: Reader, job_id: str) -> dict[str, Any]:
    return {"answer": reader.script(job_id), "job_id": job_id}
