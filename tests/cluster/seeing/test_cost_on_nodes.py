"""What a job on booted nodes costs, as its user and as the administrator see it, and where its seconds went."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from bed import Bed, wait_for

from gpucluster import account
from gpucluster.cluster import aws
from gpucluster.config import load
from gpucluster.following import cost, timeline
from gpucluster.head.remote import SshRemote

USD_A_SECOND = 5.672 / 3600
"""g5.12xlarge in us-east-1, in prices.csv."""
JOB = ("--nodes", "1", "--launcher", "srun", "--preflight", "off", "--follow", "--", "sleep", "5")
LONGEST_BOOT_S = 400


@dataclass(frozen=True)
class Ran:
    job_id: str
    submitted: int
    start: int
    end: int

    @property
    def usd(self) -> float:
        return (self.end - self.start) * USD_A_SECOND


@pytest.fixture(scope="module")
def ran(people: Bed) -> Ran:
    """The times of a job of bob's, as sacct prints them."""
    job = people.of("bob").submit(*JOB, timeout_s=400)
    assert job.exit_code == 0, job.told
    job_id = job.last["job_id"]
    asked = f"env SLURM_TIME_FORMAT=%s sacct -X -n -P --format=Submit,Start,End -j {job_id}"

    def times() -> list[int]:
        found = people.ssh("sh", "-c", asked).strip().split("|")
        return [int(each) for each in found] if found[-1].isdecimal() else []

    wait_for("the account", lambda: bool(times()), 30)
    return Ran(job_id, *times())


@contextmanager
def remote(people: Bed, user: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRemote]:
    monkeypatch.setenv(account.VARIABLE, user)
    with closing(SshRemote(aws.connect(load(people.config), people.config).door())) as found:
        yield found


def table(bed: Bed) -> dict[str, Any]:
    done = bed.gpucluster("cost", "--by", "job", "--json", "--since", "2026-01-01")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_last_job_on_a_node_pays_for_it_until_now(people: Bed, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    with remote(people, account.ADMINISTRATOR, monkeypatch) as head:
        before = time.time()
        jobs = cost.jobs(head, load(people.config), ran.submitted - 3600, before + 3600)
        after = time.time()
    job = next(each for each in jobs if each.job_id == ran.job_id)
    assert job.usd is not None
    assert job.usd - job.idle_usd == pytest.approx(ran.usd, abs=1e-6)
    # idle: since its end, and the boot of its node, if that booted for it
    assert before - ran.end <= job.idle_usd / USD_A_SECOND + 0.01 <= after - ran.end + LONGEST_BOOT_S
    assert (job.user, job.state, job.wasted_usd, job.saved_usd) == ("bob", "COMPLETED", 0.0, 0.0)

    shown = table(people)
    rows = {each["job"]: each for each in shown["rows"]}
    assert rows[ran.job_id]["usd"] >= round(job.usd, 2) - 0.01
    assert shown["usd"] == round(sum(each["usd"] for each in shown["rows"]), 2)
    assert shown["lacks"] == []
    assert rows["(head node)"]["usd"] > 0
    listed = {each["job_id"]: each for each in json.loads(people.gpucluster("jobs", "--json").stdout)}
    assert listed[ran.job_id]["usd"] >= round(job.usd, 2) - 0.01


def test_a_user_sees_the_time_of_own_jobs_and_no_one_elses(people: Bed, ran: Ran) -> None:
    own = table(people.of("bob"))
    (mine,) = (each for each in own["rows"] if each["job"] == ran.job_id)
    assert mine["usd"] == pytest.approx(ran.usd, abs=0.01)
    assert any("Slurm shows you only your own jobs" in each for each in own["lacks"])
    assert ran.job_id not in {each["job"] for each in table(people.of("alice"))["rows"]}


def test_each_second_of_a_job_has_a_name(people: Bed, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    with remote(people, "bob", monkeypatch) as head:
        spans = timeline.of(head, ran.job_id)
    assert spans[0].start_s == ran.submitted
    assert spans[-1].end_s == pytest.approx(ran.end, abs=1)  # Slurm counts whole seconds
    names = [each.name for each in spans]
    assert names.index("prolog") < names.index("running")  # what follows may be shorter than SHORTEST_S
    running = spans[names.index("running")]
    assert (running.end_s or 0.0) - running.start_s >= 5
    named = sum((each.end_s or 0.0) - each.start_s for each in spans)
    assert named == pytest.approx(ran.end - ran.submitted, abs=len(timeline.PHASES) * timeline.SHORTEST_S)
