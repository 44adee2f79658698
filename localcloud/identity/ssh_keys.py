"""Public keys that EC2 Instance Connect pushes to instances; each expires after 60 seconds."""

from __future__ import annotations

import threading
import time

VALID_S = 60.0


class PushedKeys:
    def __init__(self) -> None:
        self._keys: list[tuple[float, str, str, str]] = []  # until, instance id, user, key
        self._lock = threading.Lock()

    def push(self, instance_id: str, os_user: str, key: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._keys = [entry for entry in self._keys if entry[0] > now]
            self._keys.append((now + VALID_S, instance_id, os_user, key.strip()))

    def of(self, instance_id: str, os_user: str) -> list[str]:
        now = time.monotonic()
        with self._lock:
            return [k for until, i, user, k in self._keys if until > now and i == instance_id and user == os_user]
