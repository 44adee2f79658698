"""All jobs that are known, filtered and cut into pages here: a browser never gets 5,000 rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from gpucluster.ui.reading import Reader
from gpucluster.ui.source import HistoryRow

ROWS = 50
KINDS = ("waiting", "running", "completed", "failed", "cancelled")


def context(reader: Reader, query: Mapping[str, str]) -> dict[str, Any]:
    answer = reader.history()
    words, kind = query.get("words", "")[:200], query.get("kind", "")
    found = chosen(answer.value or (), words, kind)
    pages = max(1, -(-len(found) // ROWS))
    page = min(pages, max(1, _number(query.get("page", "1"))))
    return {
        "answer": answer,
        "rows": found[(page - 1) * ROWS : page * ROWS],
        "total": len(found),
        "known": len(answer.value or ()),
        "now_s": time.time(),
        "page": page,
        "pages": pages,
        "wanted": words,
        "kind": kind,
        "kinds": KINDS,
        "links": {name: number and _link(words, kind, number) for name, number in _neighbours(page, pages).items()},
    }


def chosen(rows: Sequence[HistoryRow], words: str, kind: str) -> Sequence[HistoryRow]:
    """Rows that have each of the words in their id, name, user, state or reason."""
    wanted = words.casefold().split()
    if not wanted and kind not in KINDS:
        return rows
    return [row for row in rows if (kind not in KINDS or row.kind == kind) and _has(row, wanted)]


def _has(row: HistoryRow, wanted: Sequence[str]) -> bool:
    text = f"{row.job_id} {row.name} {row.user} {row.state} {row.reason}".casefold()
    return all(word in text for word in wanted)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def _neighbours(page: int, pages: int) -> dict[str, int | None]:
    return {"newer": page - 1 if page > 1 else None, "older": page + 1 if page < pages else None}


def _link(words: str, kind: str, page: int) -> str:
    return "/jobs?" + urlencode(
        {name: value for name, value in {"words": words, "kind": kind}.items() if value} | {"page": page}
    )
