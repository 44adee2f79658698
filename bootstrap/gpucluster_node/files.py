"""Writes files that others read at any time."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def put(path: Path, text: str, *, on_disk: bool = False) -> None:
    """Readers see either the old file or the new one. on_disk: also after a crash of the machine."""
    new = path.with_name(f".{path.name}.{threading.get_native_id()}")
    with new.open("w") as file:
        file.write(text)
        if on_disk:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
