"""What `Feed` counts, in a file of the job's folder for each rank: `gpucluster why` reads it while the job runs, and
result.json has the sum. The path of the file is in gpucluster_job/ranks/feeds.py, too."""

from __future__ import annotations

import atexit
import json
import os
import threading
from contextlib import suppress
from functools import lru_cache
from typing import Any

FOLDER = "GPUCLUSTER_FEEDS"
EVERY_S = 20.0


class Record:
    """A thread writes the file: training must not wait for the job's folder, which is on the network."""

    def __init__(self, folder: str, rank: str, node: str) -> None:
        self._path, self._found = f"{folder}/{rank}.json", {"rank": int(rank), "node": node}
        self._waited_s = self._seconds = 0.0
        self._writes = False
        self._lock = threading.Lock()
        self.trial: dict[str, Any] = {}
        """The figures of a run of `gpucluster bench --feed`."""

    def add(self, waited_s: float, seconds: float) -> None:
        self._waited_s += waited_s
        self._seconds += seconds
        if not self._writes:
            self._writes = True
            atexit.register(self.write)
            threading.Thread(target=self._keep_writing, name="feed-record", daemon=True).start()

    def _keep_writing(self) -> None:
        pause = threading.Event()
        while not pause.wait(EVERY_S):
            self.write()

    def write(self) -> None:
        """A full file system costs the figures, and not the training."""
        found = {**self._found, "waited_s": self._waited_s, "seconds": self._seconds, **self.trial}
        partial = f"{self._path}.new"
        with self._lock, suppress(OSError):
            with open(partial, "w", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            os.replace(partial, self._path)


@lru_cache(maxsize=None)
def record() -> Record | None:
    """This rank's; None outside a job."""
    folder, rank = os.environ.get(FOLDER), os.environ.get("RANK", "")
    return Record(folder, rank, os.environ.get("GPUCLUSTER_NODE", "")) if folder and rank.isdecimal() else None
