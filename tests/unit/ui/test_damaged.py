"""Parts of a job whose files its program has written anew: JSON that is none of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gpucluster.following.arrays import Element
from gpucluster.following.metrics import Point
from gpucluster.ui import wording
from gpucluster.ui.source import Job
from tests.recorded_cluster import RecordedCluster
from tests.served_page import served

VALUES: tuple[Any, ...] = (None, [], {}, "half \ud800", 10**400, -1, True, "a" * 1000, [[1, 2], "x"], {"a": {"b": [1]}})


@dataclass
class Damaged(RecordedCluster):
    jobs: int = 20
    value: Any = None

    def job(self, job_id: str) -> Job:
        keys = ("metrics", "failed_rank", "failed_node", "exit_code", "reason")
        result = dict.fromkeys(keys, self.value) | {"metrics": {"loss": self.value, "\ud800": {"last": self.value}}}
        return replace(super().job(job_id), result=result)

    def metrics(self, job_id: str) -> Mapping[str, Sequence[Point]]:
        return {"half \ud800": [Point(1.0, None, 1.0)]}

    def elements(self, array_id: str) -> Sequence[Element]:
        last = {"metrics": {"loss": {"last": self.value}, "other": self.value}}
        none = Element(2, "18_2", {"lr": "3"}, "failed", {"metrics": self.value})
        return [*(Element(at, f"18_{at}", {"lr": str(at)}, "completed", last) for at in range(2)), none]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:8].encode("ascii", "replace").decode())
def test_every_part_is_shown(value: Any) -> None:
    with served(Damaged(value=value)) as browser:
        browser.enter()
        for part in ("summary", "result", "sweep"):
            assert browser.ask(f"/jobs/18/parts/{part}").status == 200, part
        curves = browser.ask("/jobs/18/curves")
        assert curves.status == 200 and json.loads(curves.text)["charts"][0]["title"] == "half \ud800"


def test_a_cell_is_short() -> None:
    assert wording.number(10**400) == f"1{'0' * 59}…" and wording.number(0.123456789) == "0.12346"
