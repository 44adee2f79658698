"""Reads the job's metrics while it runs: `metrics EXPRESSIONS LOG BYTES LOGGED WORLD_SIZE RUN`.

EXPRESSIONS: the file metrics.json, which a job without any does not have. BYTES of LOG belong to an earlier run of the
job. LOGGED is the folder of gpucluster_train.log. At the end of the job standard input has a line, how many seconds
are left; then this program reads the rest and prints the field `metrics` of result.json.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

from gpucluster_job.log import say
from gpucluster_job.metrics.deadline import Deadline
from gpucluster_job.metrics.expressions import Expression
from gpucluster_job.metrics.logged import Logged
from gpucluster_job.metrics.printed import Printed, TimeIsUp
from gpucluster_job.metrics.store import Store
from gpucluster_job.metrics.summary import Summary

EVERY_S = 1.0
"""How often new lines are looked for."""
NICE = 10
"""The job's ranks come first."""


def main(words: list[str]) -> int:
    _, path, log, start, folder, world_size, run = words
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # the job says when this program ends
    os.nice(NICE)
    answer = os.dup(1)
    os.dup2(2, 1)  # what this program says goes to the job's log
    found = Reader(Path(path), Path(log), int(start), folder, int(run)).run(int(world_size))
    with os.fdopen(answer, "w") as file:
        file.write(json.dumps(found))
    return 0


def _compiled(texts: dict[str, str]) -> dict[str, Expression]:
    """`submit` has compiled them, too, but a newer Python knows more forms, such as (?>…)."""
    found = {}
    for name, text in texts.items():
        try:
            found[name] = Expression(text)
        except re.error as error:
            version = ".".join(map(str, sys.version_info[:2]))
            say(f"warning: metrics: {name} is lost: this node's Python {version} cannot read its expression: {error}")
    return found


class Reader:
    def __init__(self, expressions: Path, log: Path, start: int, logged: str, run: int) -> None:
        compiled = _compiled(json.loads(expressions.read_text(encoding="utf-8")) if expressions.exists() else {})
        self._names = tuple(compiled)
        self._store = Store(log.parent, os.environ.get("SLURM_JOB_ID", "0"), run)
        self._deadline = Deadline()
        self._printed = Printed(log, start, compiled, self._store, self._deadline)
        self._logged = Logged(logged, self._store)

    def run(self, world_size: int) -> dict[str, object]:
        is_whole = self._read(world_size)
        self._store.write()
        return self._result(is_whole)

    def _read(self, world_size: int) -> bool:
        """Returns whether there was time for all of the log."""
        try:
            grown = False
            while not self._deadline.look(0 if grown else EVERY_S):
                grown = any([self._printed.read(), self._logged.read()])
                self._store.write()
            while self._logged.finish(world_size) and not self._deadline.has_passed:
                self._store.write()
            while self._printed.read():
                self._store.write()
                if self._deadline.has_passed:
                    return False
            self._printed.finish()
        except TimeIsUp:
            return False
        return True

    def _result(self, is_whole: bool) -> dict[str, object]:
        """The last value of a part of the log is not that of the whole."""
        left = {name for name in self._names if name not in self._printed.lost}
        if not is_whole:
            unread = {name for name in left if not self._store.has_logged(name)}
            left -= unread
            for name in unread:
                self._store.forget(name)
            slowest = max(sorted(left | unread), key=self._printed.spent.__getitem__)
            why = f"the expression of {slowest} took {self._printed.spent[slowest]:.1f} s of CPU time"
            say(f"warning: metrics: the log could not be read to its end in {self._deadline.limit_s:.0f} s: {why}")
        return {**{name: Summary().fields() for name in sorted(left)}, **self._store.summary()}
