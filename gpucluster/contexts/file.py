"""The path and the JSON of the file of contexts. It imports fast, because every verb checks for a context in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpucluster.errors import UsageError


def path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gpucluster" / "contexts.json"


def load() -> dict[str, Any]:
    """Empty if there is no file. Raises UsageError."""
    if not path().exists():
        return {}
    import json

    try:
        data = json.loads(path().read_text(encoding="utf-8"))
    except ValueError as error:
        raise unreadable(error) from None
    if not isinstance(data, dict):
        raise unreadable(TypeError("not an object"))
    return data


def unreadable(error: Exception) -> UsageError:
    problem = f"{path()} cannot be read: {type(error).__name__}: {error}"
    return UsageError(problem, "delete it, and run `gpucluster context add` again for each context")


def current() -> str:
    """The context that `context use` chose; empty if the user chose none. Raises UsageError."""
    return str(load().get("current") or "")
