"""NCCL's watchdog, which says at a timeout how far each rank has come. All ranks of a group say it, also the one for
which the others waited: it gets a signal to dump (ProcessGroupNCCL.cpp of torch 2.4 to 2.14)."""

from __future__ import annotations

import re

from gpucluster_job.hangs.missing import Missing, by_counts, most

MARK = b"ast enqueued"
_SAID = re.compile(
    rb"\[(?P<label>[^ ]+) [^]]+\] .*\[PG (?:ID )?(?P<group>\d+)\b[^\]]*\]"
    rb".*[Ll]ast enqueued (?:NCCL )?work: (?P<number>\d+), last completed"
)


class Watchdog:
    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def hear(self, line: bytes) -> None:
        """A line of a rank with MARK. torch's own number of the rank is that in the group."""
        if found := _SAID.match(line):
            most(self._counts, found["group"].decode(), found["label"].decode(errors="replace"), int(found["number"]))

    def missing(self) -> Missing | None:
        """A rank that says nothing is not called missing: it may have ended in another way."""
        return by_counts({group: ranks for group, ranks in self._counts.items() if len(ranks) > 1})
