"""From when until when each instance ran is recorded once, whatever happens to the head node's programs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import ec2, fleet
from gpucluster_node.power import lifetimes, spending

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", 0, 9, "spot"),))
HEAD = lifetimes.Life("i-head", "head", "m6i.2xlarge", "on-demand", NOW.timestamp() - 900, 0.0)


def instance(number: int, node: str | None = "train-1") -> ec2.Instance:
    return ec2.Instance(f"i-{number}", "running", "10.0.0.1", NOW, node, None, instance_type="g5.xlarge")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ended(folder: Path) -> list[dict[str, Any]]:
    _, *lines = lifetimes.ended_in(folder).read_text().splitlines()
    return [json.loads(line) for line in lines]


def running(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lifetimes.running_in(folder).read_text())
    return found


def test_an_instance_is_recorded_from_its_launch_until_it_was_last_seen(tmp_path: Path) -> None:
    record = lifetimes.Lifetimes(CLUSTER, tmp_path)
    for seconds in (30, 35, 40):
        record.look([instance(1), instance(2, None)], after(seconds))
    record.look([instance(2, "train-2")], after(45))
    life = {"instance": "i-1", "node": "train-1", "type": "g5.xlarge", "purchase": "spot"}
    assert ended(tmp_path) == [life | {"launched": NOW.timestamp(), "seen": after(40).timestamp()}]
    assert [each["node"] for each in running(tmp_path)] == ["train-2"]
    assert json.loads(lifetimes.ended_in(tmp_path).read_text().splitlines()[0]) == {"since": after(30).timestamp()}


def test_another_process_knows_what_ran_and_ends_it(tmp_path: Path) -> None:
    """What ran when the last process ended, at the last time that is on the disk: at most a minute too early."""
    lifetimes.Lifetimes(CLUSTER, tmp_path).look([instance(1), instance(2)], after(60))
    lifetimes.Lifetimes(CLUSTER, tmp_path).look([instance(2)], after(600))
    assert [(each["instance"], each["seen"]) for each in ended(tmp_path)] == [("i-1", after(60).timestamp())]


def test_the_head_node_is_recorded_too_and_a_corrected_clock_is_no_other_boot(tmp_path: Path) -> None:
    lifetimes.Lifetimes(CLUSTER, tmp_path, HEAD).look([], after(0))
    lifetimes.Lifetimes(CLUSTER, tmp_path, replace(HEAD, launched=HEAD.launched + 2)).look([], after(60))
    assert ended(tmp_path) == []
    assert [each["launched"] for each in running(tmp_path)] == [HEAD.launched]
    lifetimes.Lifetimes(CLUSTER, tmp_path, replace(HEAD, launched=HEAD.launched + 5000)).look([], after(6000))
    assert [(each["node"], each["seen"]) for each in ended(tmp_path)] == [("head", after(60).timestamp())]


def test_a_file_that_cannot_be_read_or_written_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lifetimes.running_in(tmp_path).write_text("{")
    ledger = spending.Ledger(replace(CLUSTER, state=str(tmp_path)), {"g5.xlarge": 1.0})
    ledger.update([instance(1)], after(0))
    assert [each["instance"] for each in running(tmp_path)] == ["i-1"]
    assert "nodes-now.json cannot be read" in caplog.text
    lost = spending.Ledger(replace(CLUSTER, state=f"{tmp_path}/gone"), {})
    lost.update([instance(1)], after(0))
    assert "are not recorded" in caplog.text


def test_the_file_stays_bounded_and_says_since_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "MOST_BYTES", 2000)
    record = lifetimes.Lifetimes(CLUSTER, tmp_path)
    for number in range(100):
        record.look([instance(number)], after(number))
    assert lifetimes.ended_in(tmp_path).stat().st_size <= 2000 + 300
    since = json.loads(lifetimes.ended_in(tmp_path).read_text().splitlines()[0])["since"]
    assert since == ended(tmp_path)[0]["seen"]
    assert ended(tmp_path)[-1]["instance"] == "i-98"


def test_the_boot_of_this_machine_is_when_its_first_process_began() -> None:
    said = subprocess.run(["ps", "-o", "etimes=", "-p", "1"], capture_output=True, text=True, check=True).stdout
    assert abs(datetime.now(UTC).timestamp() - int(said) - lifetimes._booted()) < 5
