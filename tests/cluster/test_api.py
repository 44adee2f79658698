"""The Python API against booted nodes: a program as in docs/api.md. tests/nightly has the same in a notebook."""

from __future__ import annotations

import asyncio

import pytest

from gpucluster import Cluster, Job, Result
from tests.cluster.bed import Bed

pytestmark = pytest.mark.xdist_group("cluster")


def job(text: str) -> Job:
    return Job(command=["echo", text], launcher="srun", ntasks_per_node=1, workdir=None, metrics={"n": r"n=(\d+)"})


def test_jobs_are_submitted_and_awaited_together(cluster: Bed) -> None:
    async def both(here: Cluster) -> list[Result]:
        runs = [here.submit(job(f"n={number}")) for number in (1, 2)]
        return await asyncio.gather(*(run.wait_async(timeout_s=600) for run in runs))

    with Cluster.connect(cluster.config) as here:
        results = asyncio.run(both(here))
        assert [each.check().metrics["n"]["last"] for each in results] == [1, 2]
        assert "n=2" in list(here.run(results[1].job_id).logs())[-1]
