"""What nodes have cost, and the limits that make a launch wait."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from gpucluster_node import ec2, fleet, slurm
from gpucluster_node.power import groups, launch, limits, resume, spending

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
PRICES = {"g5.xlarge": 1.0, "g5.2xlarge": 2.0}
TEMPLATES = [fleet.LaunchTemplate(each, f"lt-{each}", "1") for each in PRICES]
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", 0, 9, "on-demand", 6.0),))


def instance(number: int, node: str | None = None, launched: datetime = NOW, kind: str = "g5.xlarge") -> ec2.Instance:
    return ec2.Instance(f"i-{number}", "running", "10.0.0.1", launched, node, None, instance_type=kind)


@pytest.fixture
def cluster(tmp_path: Path) -> fleet.Fleet:
    return replace(CLUSTER, state=str(tmp_path), monthly_usd=10.0)


def counted(cluster: fleet.Fleet) -> float:
    found: float = json.loads(spending.path(cluster).read_text())["usd"]
    return found


def test_what_was_counted_is_not_counted_again_by_another_head(cluster: fleet.Fleet) -> None:
    one = instance(1, launched=NOW - timedelta(hours=2))
    for minutes in (0, 1, 60):
        spending.Ledger(cluster, PRICES).update([one], NOW + timedelta(minutes=minutes))
    assert counted(cluster) == 3.0


def test_an_instance_that_has_ended_still_counts_and_one_of_last_month_does_not(cluster: fleet.Fleet) -> None:
    ledger = spending.Ledger(cluster, PRICES)
    ledger.update([instance(1, launched=NOW - timedelta(hours=2))], NOW)
    ledger.update([instance(2, launched=NOW, kind="g5.2xlarge")], NOW + timedelta(hours=1))
    assert counted(cluster) == 4.0
    december = datetime(2026, 12, 1, 1, 0, tzinfo=UTC)
    ledger.update([instance(2, launched=NOW, kind="g5.2xlarge")], december)
    assert counted(cluster) == 2.0
    assert list(json.loads(spending.path(cluster).read_text())["instances"]) == ["i-2"]


def test_a_type_without_a_price_is_named(cluster: fleet.Fleet) -> None:
    spending.Ledger(cluster, {}).update([instance(1, launched=NOW - timedelta(hours=1))], NOW)
    assert json.loads(spending.path(cluster).read_text())["unpriced"] == ["g5.xlarge"]


def test_what_each_partition_costs_an_hour_is_written(cluster: fleet.Fleet) -> None:
    instances = [instance(1, "train-1"), instance(2, "train-2", kind="g5.2xlarge"), instance(3), instance(4, "gone-1")]
    spending.Ledger(cluster, PRICES).update(instances, NOW)
    assert json.loads(spending.path(cluster).read_text())["usd_per_hour"] == {"train": 3.0}


def test_four_fifths_of_the_budget_are_said_once(cluster: fleet.Fleet, caplog: pytest.LogCaptureFixture) -> None:
    ledger, one = spending.Ledger(cluster, PRICES), instance(1, launched=NOW - timedelta(hours=7))
    with caplog.at_level(logging.WARNING):
        ledger.update([one], NOW)
        assert caplog.messages == []
        for hours in (1, 2):
            ledger.update([one], NOW + timedelta(hours=hours))
    assert caplog.messages == ["the nodes have cost 8.00 of the budget's 10.00 USD this month"]


def test_a_file_that_cannot_be_written_ends_nothing(cluster: fleet.Fleet, caplog: pytest.LogCaptureFixture) -> None:
    gone = replace(cluster, state=f"{cluster.state}/gone")
    spending.Ledger(gone, PRICES).update([instance(1)], NOW)
    assert "No such file" in caplog.text


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"instances": {"i-1": 1}}', '{"instances": {"i-1": ["g5.xlarge", "2026-11-23", "then"]}}']
)
def test_a_file_that_cannot_be_read_is_kept_aside_and_counted_anew(
    cluster: fleet.Fleet, play: Callable[..., Played], caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """Else it would refuse every launch for ever."""
    play({}, [])
    path = spending.path(cluster)
    path.write_text(text)
    spending.Ledger(cluster, PRICES).update([instance(1, launched=NOW - timedelta(hours=2))], NOW)
    assert counted(cluster) == 2.0 and room(cluster).nodes > 0
    (aside,) = path.parent.glob("spending.unreadable-*")
    assert aside.read_text() == text and f"it is kept as {aside}" in caplog.text


class Played:
    """Slurm's nodes and EC2's instances; a launch adds one to both."""

    def __init__(self, states: dict[str, str], instances: list[ec2.Instance]) -> None:
        self.states, self.instances, self.down = states, instances, dict[str, str]()

    def nodes(self, names: Any = ()) -> list[slurm.Node]:
        return [slurm.Node(name, frozenset(state.split("+"))) for name, state in self.states.items()]

    def set_down(self, names: list[str], reason: str) -> None:
        self.down |= dict.fromkeys(names, reason)


BOOTING, OFF = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN"


LAUNCHING: list[str] = []
"""The nodes that launches have now."""


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    def made(states: dict[str, str], instances: list[ec2.Instance], launching: tuple[str, ...] = ()) -> Played:
        played = Played(states, instances)
        monkeypatch.setattr(slurm, "nodes", played.nodes)
        monkeypatch.setattr(slurm, "set_down", played.set_down)
        monkeypatch.setattr(ec2, "describe", lambda *_: played.instances)
        LAUNCHING[:] = launching
        return played

    return made


def limited(cluster: fleet.Fleet) -> limits.Limits:
    return limits.Limits(cluster, lambda: None, lambda: NOW, lambda: PRICES, lambda: LAUNCHING)


def room(cluster: fleet.Fleet) -> limits.Room:
    return limited(cluster).room("train", TEMPLATES)


def test_a_partition_has_room_for_nodes_of_its_dearest_type(cluster: fleet.Fleet, play: Callable[..., Played]) -> None:
    up = {"train-1": "ALLOCATED+CLOUD", "train-2": BOOTING, "train-3": BOOTING, "train-4": OFF, "train-5": "DOWN+CLOUD"}
    play(up, [instance(1, "train-1")], launching=("train-3",))
    found = room(cluster)
    assert found.nodes == 1, "6 USD, of which train-1 costs 1, train-2 up to 2, and train-3 is not launched yet"
    assert (
        found.why
        == "the limit of 6 USD an hour of partition train is reached: its nodes cost 3.00 USD an hour, one more 2"
    )
    assert room(replace(cluster, partitions=(fleet.Partition("train", 0, 9, "spot"),))).why == ""


def test_nothing_has_room_once_the_months_money_is_spent(cluster: fleet.Fleet, play: Callable[..., Played]) -> None:
    play({}, [])
    spending.Ledger(cluster, PRICES).update([instance(1, launched=NOW - timedelta(hours=11))], NOW)
    assert room(cluster) == limits.Room(
        0, "the budget of 10 USD a month is reached: the nodes have cost 11.00 USD this month"
    )
    assert room(replace(cluster, monthly_usd=None)).nodes == 3


BLOCK = fleet.Partition("block", 0, 9, "capacity-block")


def test_a_capacity_block_is_paid_in_advance(cluster: fleet.Fleet, play: Callable[..., Played]) -> None:
    """AWS bills it when it is bought: its nodes cost nothing more, and start when the month's money is spent."""
    both = replace(cluster, partitions=(*cluster.partitions, BLOCK))
    launched = NOW - timedelta(hours=11)
    spending.Ledger(both, PRICES).update([instance(1, "block-1", launched), instance(2, "train-1", launched)], NOW)
    assert counted(both) == 11.0
    play({}, [])
    assert limited(both).room("train", TEMPLATES).why.startswith("the budget of 10 USD a month is reached")
    assert limited(both).room("block", TEMPLATES) == limits.UNLIMITED


def test_jobs_of_one_node_share_what_there_is_and_a_job_of_several_waits() -> None:
    assert limits.Room(2).of(["a", "b", "c"], together=False) == ["a", "b"]
    assert limits.Room(2).of(["a", "b", "c"], together=True) == []
    assert limits.Room(2).of(["a", "b"], together=True) == ["a", "b"]
    assert limits.UNLIMITED.of(["a"], together=True) == ["a"]


@pytest.mark.parametrize("ends", ["money comes", "the limit rises", ""])
def test_a_launch_waits_for_money_and_says_so(
    cluster: fleet.Fleet, play: Callable[..., Played], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    """Nodes that run are left alone; a launch that waited too long is refused, and its nodes are tried again later.
    `gpucluster up` may raise the limit meanwhile, or bring the bundle of a newer release."""
    states = {"train-1": "ALLOCATED+CLOUD", "train-2": "ALLOCATED+CLOUD", "train-3": BOOTING, "train-4": BOOTING}
    played = play(states, [instance(n, f"train-{n}", kind="g5.2xlarge") for n in (1, 2)], ("train-3", "train-4"))
    clock, said, launched = [0.0], list[str](), list[str]()

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if ends == "money comes" and clock[0] >= 60:
            played.states["train-1"], played.instances = OFF, played.instances[1:]

    def run(self: Any, nodes: list[str], *_: Any, **__: Any) -> launch.Launched:
        launched.extend(nodes)
        return launch.Launched()

    record: Any = SimpleNamespace(done=lambda nodes: None, journal=SimpleNamespace(nodes=frozenset))
    launcher = launch.Launcher(cluster, "x", lambda: None, lambda: clock[0], sleep, lambda nodes, why: said.append(why))
    raised = replace(cluster, partitions=(replace(cluster.partitions[0], max_usd_per_hour=20.0),))

    def load() -> fleet.Fleet:
        if ends == "money comes":
            raise TypeError("a newer release's bundle has a key that this program does not know")
        return raised if ends == "the limit rises" and clock[0] >= 60 else cluster

    program = resume.Resume(cluster, launcher, record, load)
    program._templates["train"] = ()
    monkeypatch.setattr(launch.Launcher, "launch", _kept(run))
    monkeypatch.setattr(program, "_limits", limited(cluster))
    monkeypatch.setattr(program, "_templates_of", lambda partition: tuple(TEMPLATES))
    monkeypatch.setattr(program._joining, "keep", lambda group, instances: None)
    program.one(groups.Group("train", ("train-3", "train-4"), 7))
    why = "the limit of 6 USD an hour of partition train is reached: its nodes cost 4.00 USD an hour, one more 2"
    assert said[0] == f"{why}; the head node checks again every 15 s"
    assert program._stale == {"train"}, "they are read again"
    if ends:
        assert (launched, played.down) == (["train-3", "train-4"], {})
        assert 60 <= clock[0] < 80
    else:
        assert launched == []
        assert played.down == dict.fromkeys(("train-3", "train-4"), f"{why}; next try in 120 s")


@pytest.mark.parametrize(
    ("code", "monthly_usd", "stopped"),
    [("UnauthorizedOperation", 10.0, True), ("UnauthorizedOperation", None, False), ("Unsupported", 10.0, False)],
    ids=["at_limit: stop-launches", "no budget that stops launches", "another error"],
)
def test_a_refused_permission_names_the_stop_by_aws_budgets(
    cluster: fleet.Fleet, code: str, monthly_usd: float | None, stopped: bool
) -> None:
    """AWS counts more than the head node does, so its policy may come first, and EC2's answer does not name it."""
    client = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    launcher = launch.Launcher(replace(cluster, monthly_usd=monthly_usd), "x", lambda: client)
    with Stubber(client) as stub:
        for _ in TEMPLATES:
            stub.add_client_error("run_instances", code, "No.", http_status_code=403)
        found = launcher.launch(["train-1"], TEMPLATES, lambda instances: None, together=True)
    said = f"{code}: No. (g5.xlarge); {code}: No. (g5.2xlarge)"
    why = "AWS Budgets may have stopped launches (to allow them, raise budget.monthly_usd and run `gpucluster up`): "
    assert found.why == (why if stopped else "") + said


def _kept(run: Callable[..., launch.Launched]) -> Callable[..., launch.Launched]:
    """Hands over what is launched."""

    def launching(self: Any, nodes: list[str], templates: Any, keep: Any, **options: Any) -> launch.Launched:
        found = run(self, list(nodes))
        keep({node: instance(9, node) for node in nodes})
        return found

    return launching
