"""The page of `gpucluster ui` about a real job on a booted node, while it runs and after it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from bed import Bed, wait_for

from gpucluster.config import load
from gpucluster.layout import expand
from gpucluster.ui.cluster import ClusterSource
from tests.served_page import Browser, served

PROGRAM = (
    "import time\nfor step in range(30): print(f'step {step} loss {9 / (step + 1):.3f}', flush=True); time.sleep(0.5)"
)
JOB = ("--nodes", "1", "--launcher", "srun", "--preflight", "off")
METRICS = ("--name", "curve", "--metrics", r"loss=loss ([0-9.]+)")


@pytest.fixture(scope="module")
def page(people: Bed) -> Iterator[Browser]:
    source = ClusterSource(expand(load(people.config)), people._remote(), may_write=True)
    with served(source, beat_s=1) as found:
        found.enter()
        yield found


def test_a_job_while_it_runs_and_after_it(people: Bed, page: Browser) -> None:
    job_id = people.submit(*JOB, *METRICS, "--", "python", "-c", PROGRAM).last["job_id"]
    place = f"/jobs/{job_id}/parts"
    wait_for("the log", lambda: "loss 0." in page.ask(f"{place}/log").text, 400)
    seen = {part: page.ask(f"{place}/{part}").text for part in ("summary", "why", "script")}
    assert "s-running" in seen["summary"] and ">curve<" in seen["summary"]
    assert f"job {job_id} " in seen["why"]
    assert "range(30)" in seen["script"] and "#SBATCH" in seen["script"]
    now = page.ask("/parts/cluster").text
    assert f'id="job-{job_id}"' in now and 'class="node m-busy"' in now and "$" in now
    wait_for("a curve", lambda: "loss" in curves(page, job_id), 60)

    wait_for("the end", lambda: "s-completed" in page.ask(f"{place}/summary").text, 120)
    page.answers.clear()
    for part in ("summary", "why", "log", "result", "script"):
        assert 'class="lacks"' not in page.ask(f"{place}/{part}").text, part
    assert "<b>running</b>" in page.ask(f"{place}/summary").text, "its timeline"
    assert len(curves(page, job_id)["loss"]) == 30
    assert "0.3" in page.ask(f"{place}/result").text
    rows = page.ask("/parts/jobs?words=curve").text
    assert f'id="row-{job_id}"' in rows and "s-completed" in rows
    assert "/home" in page.ask("/parts/storage").text
    assert f'href="/jobs/{job_id}"' in page.ask("/parts/money?days=1").text


def curves(page: Browser, job_id: str) -> dict[str, list[float]]:
    found = json.loads(page.ask(f"/jobs/{job_id}/curves").text)
    return {chart["title"]: chart["lines"][0]["y"] for chart in found["charts"]}


def test_a_button_cancels_a_job(people: Bed, page: Browser) -> None:
    job_id = people.submit(*JOB, "--", "sleep", "600").last["job_id"]
    answer = page.ask(f"/jobs/{job_id}/cancel", {"form_key": page.guard.form_key})
    assert answer.status == 303
    wait_for("the end", lambda: "s-cancelled" in page.ask(f"/jobs/{job_id}/parts/summary").text, 60)
