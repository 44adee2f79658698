"""The cloud's time: the machine's, or a faster one."""

from __future__ import annotations

import time


class Clock:
    """Seconds of the cloud, each of which lasts `scale` seconds here."""

    def __init__(self, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"scale must be greater than 0, got {scale:g}")
        self.scale = scale

    def now(self) -> float:
        return time.monotonic() / self.scale

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds * self.scale)
