"""The process that copies a folder to S3 while the job runs: gpucluster_train/state_sync.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from gpucluster_job import library
from gpucluster_job.log import say

LAST_COPY_S = 6.0
"""The limit if Slurm is ending the job, or its time limit is near. Otherwise the last copy has no limit: cancelling the
job ends it, and result.json is written before."""
SOON_S = 12.0
UNFINISHED = "the last copy was not finished"
LATE = (
    "[state] warning: the last copy to S3 was not completed in time; the next run on this cluster continues from the "
    "cluster's own copy"
)


class Copying:
    """`kept`: a file with the id of the copy. `result`: a file with the copy's state, for result.json. `late`: for the
    log, if the last copy takes too long."""

    def __init__(self, folder: Path, uri: str, kept: Path, result: Path, verb: str = "watch", late: str = LATE) -> None:
        self._folder, self._uri, self._kept, self._result = folder, uri, kept, result
        self._verb, self._late = verb, late
        self._process: subprocess.Popen[bytes] | None = None

    def words(self, verb: str) -> list[str]:
        return library.words("state_sync", str(self._folder), self._uri, str(self._kept), str(self._result), verb)

    def start(self) -> Copying:
        self._result.unlink(missing_ok=True)
        self._process = subprocess.Popen(self.words(self._verb), stdin=subprocess.PIPE)
        return self

    def end(self) -> None:
        """Asks for the last copy."""
        assert self._process and self._process.stdin
        self._process.stdin.close()

    @property
    def failed(self) -> bool:
        return self._process is not None and bool(self._process.returncode)

    def finished(self, limit_s: float | None) -> dict[str, Any]:
        assert self._process
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            say(self._late)
            return {"problem": f"{UNFINISHED} in time"}
        try:
            found: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
            return found
        except (OSError, ValueError):
            return {"problem": f"the program that copies it exited with code {self._process.returncode}"}
