"""How often the page asks the cluster."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from gpucluster.following.logs import Selection
from gpucluster.ui import answers, reading
from gpucluster.ui.answers import Answers
from gpucluster.ui.reading import Reader
from tests.recorded_cluster import RUNNING, RecordedCluster


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(at=0.0, began=time.time())
    stands_in = SimpleNamespace(monotonic=lambda: found.at, time=lambda: found.began + found.at)
    monkeypatch.setattr(answers, "time", stands_in)
    monkeypatch.setattr(reading, "time", stands_in)
    return found


def calls_of_an_hour(source: RecordedCluster, job_id: str, clock: SimpleNamespace) -> int:
    """The calls of a page of the job, with a search in its log."""
    reader = Reader(source, Answers())
    selection = Selection(grep="seldom", tail=300)
    reader.job(job_id)
    before = source.calls
    for _ in range(720):
        clock.at += 5
        reader.log(job_id, selection)
        reader.metrics(job_id)
        reader.job(job_id)
    return source.calls - before


def test_what_an_ended_job_left_is_not_read_again_and_again(clock: SimpleNamespace) -> None:
    source = RecordedCluster(jobs=100)
    ended = next(row.job_id for row in source.history() if row.kind == "completed" and row.ended_s and not row.elements)
    assert calls_of_an_hour(source, RUNNING, clock) == 3 * 720
    assert calls_of_an_hour(source, ended, clock) <= 240 + 2 * 4
