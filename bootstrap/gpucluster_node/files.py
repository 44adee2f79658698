"""Writes files that others read at any time."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, text: str) -> None:
    """Readers see either the old file or the new one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)
