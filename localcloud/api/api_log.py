"""The API log: one JSON line per call, in the state directory."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any


class ApiLog:
    def __init__(self, path: Path) -> None:
        """Overwrites the log of an earlier cloud of the same name."""
        self._path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def add(self, **facts: Any) -> None:
        """`facts`: service, action, caller, status, error, instance_ids; for a role's call also role and checks."""
        entry = {"time": round(time.time(), 3)} | facts
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(entry) + "\n")
                self._file.flush()

    def since(self, epoch_s: float) -> list[dict[str, Any]]:
        with self._lock:
            lines = self._path.read_text().splitlines()
        return [entry for line in lines if (entry := json.loads(line))["time"] >= epoch_s]

    def close(self) -> None:
        with self._lock:
            self._file.close()
