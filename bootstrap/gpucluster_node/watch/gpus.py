"""Reads the GPUs without waiting for them: while a GPU or its driver hangs, NVML does not answer, and a node has other
samples."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from gpucluster_node.watch.nvml import Gpu, Nvml, NvmlError

log = logging.getLogger("sampler")
WAIT_S = 1.0
AGAIN_S = 60.0
"""After a failure to open the library: after a restart, this daemon may start before the driver is loaded."""


class Gpus:
    def __init__(self, open_: Callable[[], Nvml] = Nvml, wait_s: float = WAIT_S, again_s: float = AGAIN_S) -> None:
        self._open, self._wait_s, self._again_s = open_, wait_s, again_s
        self._nvml: Nvml | None = None
        self._open_at = 0.0
        self._said = ""
        self._thread: threading.Thread | None = None
        self._found: list[Gpu] = []
        self._is_late = False

    def read(self) -> list[Gpu]:
        """Empty without a driver, and while it does not answer: old values would look like new ones."""
        hangs = self._thread is not None and self._thread.is_alive()
        if self._thread is None or not hangs:
            self._found = []
            self._thread = threading.Thread(target=self._read, name="nvml", daemon=True)
            self._thread.start()
        self._thread.join(0.0 if hangs else self._wait_s)
        was_late, self._is_late = self._is_late, self._thread.is_alive()
        if self._is_late and not was_late:
            log.warning("NVIDIA's driver has not answered for %.0f s: no samples of GPUs until it does", self._wait_s)
        return [] if self._is_late else self._found

    def _read(self) -> None:
        if self._nvml is None and not self._opened():
            return
        assert self._nvml
        self._found = self._nvml.read()

    def _opened(self) -> bool:
        if time.monotonic() < self._open_at:
            return False
        try:
            self._nvml = self._open()
        except NvmlError as error:
            self._open_at = time.monotonic() + self._again_s
            if str(error) != self._said:
                self._said = str(error)
                log.info("no samples of GPUs: %s", error)
            return False
        return True
