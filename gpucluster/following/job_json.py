"""A file of JSON in a job's folder, which the job's own programs may have changed."""

from __future__ import annotations

import json
from typing import Any

from gpucluster.errors import RemoteError


def parse(text: str) -> dict[str, Any] | None:
    """None for an empty text. Raises RemoteError."""
    if not text.strip():
        return None
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"result.json cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise RemoteError("result.json cannot be read: it is no object, so the job's programs have changed it")
    return found
