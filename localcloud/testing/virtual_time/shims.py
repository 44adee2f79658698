"""The modules `time`, `datetime` and `os` for a program with its own clock, environment and pid."""

from __future__ import annotations

import datetime
import os
import time
import types
from typing import Any

from localcloud.testing.virtual_time.clock import VirtualClock

_BEGIN = datetime.datetime(2026, 11, 22, 12, 0, 0, tzinfo=datetime.UTC)


class ShimTime(types.ModuleType):
    """The module `time` with another clock."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("time")
        self.__dict__.update({key: value for key, value in vars(time).items() if not key.startswith("__")})
        self._clock = clock
        self.sleep = clock.sleep
        self.monotonic = clock.now
        self.perf_counter = clock.now
        self.time = lambda: self.utc().timestamp()
        self.time_ns = lambda: int(self.utc().timestamp() * 1e9)
        self.monotonic_ns = lambda: int(clock.now() * 1e9)

    def utc(self) -> datetime.datetime:
        return _BEGIN + datetime.timedelta(seconds=self._clock.now())


def shim_datetime(shim: ShimTime) -> types.ModuleType:
    class Virtual(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            at = shim.utc()
            return at.astimezone(tz) if tz else at.replace(tzinfo=None)

        @classmethod
        def utcnow(cls) -> Any:
            return shim.utc().replace(tzinfo=None)

    module = types.ModuleType("datetime")
    module.__dict__.update({key: value for key, value in vars(datetime).items() if not key.startswith("__")})
    module.datetime = Virtual  # type: ignore[attr-defined]
    return module


def shim_os(pid: int, environment: dict[str, str]) -> types.ModuleType:
    module = types.ModuleType("os")
    module.__dict__.update({key: value for key, value in vars(os).items() if not key.startswith("__")})
    module.getpid = lambda: pid  # type: ignore[attr-defined]
    module.environ = {**os.environ, **environment}  # type: ignore[attr-defined]
    return module
