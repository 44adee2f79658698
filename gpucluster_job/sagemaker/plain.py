"""Starts the ranks of this host without a launcher: `sagemaker-ranks COMMAND...`. If one fails, it ends the others."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

from gpucluster_job.sagemaker import place

POLL_S = 0.05


def main(words: list[str]) -> int:
    number, count = int(os.environ["NODE_RANK"]), int(os.environ["RANKS_PER_NODE"])
    command = place.words("sagemaker-rank", *words[1:])
    ranks = [subprocess.Popen(command, env=_variables(number * count + local, local)) for local in range(count)]

    def end(signum: int = 0, frame: Any = None) -> None:
        for rank in ranks:
            with suppress(ProcessLookupError):
                rank.terminate()

    signal.signal(signal.SIGTERM, end)
    code = 0
    while None in [rank.poll() for rank in ranks] and not code:
        time.sleep(POLL_S)
        code = _first_failure(ranks)
    if code:
        end()
    codes = [rank.wait() for rank in ranks]
    return code or next(filter(None, map(_as_shell, codes)), 0)


def _first_failure(ranks: list[subprocess.Popen[bytes]]) -> int:
    return next((_as_shell(rank.returncode) for rank in ranks if rank.returncode), 0)


def _as_shell(code: int) -> int:
    return code if code >= 0 else 128 - code


def _variables(rank: int, local: int) -> dict[str, str]:
    return {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(local)}
