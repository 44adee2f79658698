"""The tables of states: each combination has one rule, reconcile follows it, and Slurm is then where the table says."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import ec2, fleet, retry, slurm, states
from gpucluster_node.power import observation
from gpucluster_node.power.observation import Snapshot
from gpucluster_node.power.reconcile import Action, Seen, decide
from gpucluster_node.states import Rule, Table

from tests.pace.slurm import Controller

PAGE = Path(__file__).resolve().parents[3] / "docs" / "elasticity.md"
NOW = datetime(2026, 11, 23, 12, 0, 0)
BEGAN = datetime(2026, 11, 23, 11, 0, tzinfo=UTC)
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", 1, 2, "on-demand"),))
TEMPLATES = {"train": {("lt-1", "2")}}
FLAGS = {
    states.OFF: "IDLE+CLOUD+POWERED_DOWN",
    states.ASKED: "IDLE+CLOUD+POWERED_DOWN+POWER_UP",
    states.BOOTING: "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP",
    states.UP: "ALLOCATED+CLOUD",
    states.SILENT: "ALLOCATED+CLOUD+NOT_RESPONDING",
    states.DRAINED: "ALLOCATED+CLOUD+DRAIN",
    states.LAST_JOB: "ALLOCATED+CLOUD+DRAIN+POWER_DOWN",
    states.ENDING: "IDLE+CLOUD+POWERING_DOWN",
    states.DOWN: "DOWN+CLOUD+NOT_RESPONDING+POWERING_UP",
    states.DOWN_ENDING: "DOWN+CLOUD+POWER_DOWN",
    states.DOWN_OFF: "DOWN+CLOUD+POWERED_DOWN",
}
TABLES = {"A node": states.NODE, "An instance": states.INSTANCE, "A job's Lustre file system": states.LUSTRE}


@pytest.mark.parametrize("title", TABLES)
def test_each_combination_has_exactly_one_rule(title: str) -> None:
    table = TABLES[title]
    wrong = {state: len(found) for state in table.states() if len(found := table.matching(state)) != 1}
    assert wrong == {}


def test_no_rule_is_never_used() -> None:
    for table in TABLES.values():
        assert {id(table.rule(*state)) for state in table.states()} == {id(rule) for rule in table.rules}


def node(of_slurm: str, ours: str) -> slurm.Node:
    name = "train-1" if ours == states.ALWAYS_ON else "train-2"
    reason = retry.reason("x", 60) if ours == states.DUE else "bad GPU"
    return slurm.Node(name, frozenset(FLAGS[of_slurm].split("+")), reason, NOW - timedelta(seconds=60))


def instance(name: str | None, of_ec2: str = states.LIVE, launched: datetime = BEGAN) -> ec2.Instance:
    failed = "step=x" if of_ec2 == states.BOOT_FAILED else None
    version = "1" if of_ec2 == states.OUTDATED else "2"
    return ec2.Instance("i-1", "running", "10.0.0.1", launched, name, failed, ("lt-1", version))


def in_world(state: states.Words) -> list[Action]:
    """What reconcile does, once the state has lasted."""
    of_slurm, of_ec2, ours = state
    one = node(of_slurm, ours)
    instances = [] if of_ec2 in (states.NONE, states.ENDED) else [instance(one.name, of_ec2)]
    launching = [one.name] if ours == states.LAUNCHING else []
    over = {one.name: "terminated"} if of_ec2 == states.ENDED else {}
    free = [one.name] if ours == states.FREE else []
    seen, found = Seen(), list[Action]()
    for seconds in (0, 100):
        now = NOW + timedelta(seconds=seconds)
        found = decide(Snapshot(CLUSTER, [one], instances, now, TEMPLATES, launching, (), over, free), seen)
    return [action for action in found if action.verb != "terminate"]


def can_be(state: states.Words) -> bool:
    """A DOWN node alone has a time for its next try; one that is drained is not kept on; one that ends may be free."""
    of_slurm, _, ours = state
    down = of_slurm in (states.DOWN, states.DOWN_ENDING, states.DOWN_OFF)
    drained = ours == states.ALWAYS_ON and "DRAIN" in FLAGS[of_slurm]
    free = ours == states.FREE
    return not drained and (ours != states.DUE or down) and (not free or of_slurm == states.ENDING)


@pytest.mark.parametrize("state", [each for each in states.NODE.states() if can_be(each)], ids="/".join)
def test_reconcile_does_what_the_table_says_and_slurm_follows(state: states.Words) -> None:
    rule = states.NODE.rule(*state)
    found = in_world(state)
    assert [action.verb for action in found] == ([rule.action] if rule.action else [])
    for action in found:
        assert after(state[0], action) in rule.then


def after(of_slurm: str, action: Action) -> str:
    """The node's state once Slurm has taken the action."""
    played = Controller({"train": 2}, lambda: 0.0, lambda: NOW, 900, 120, 120)
    base, *flags = FLAGS[of_slurm].split("+")
    one = played.nodes[action.name]
    (one.job,) = played.submit(1)
    one.job.nodes = [one]
    one.base, one.flags = base, set(flags)
    played.run(slurm.update_argv([action.name], state=action.verb, reason=action.reason))
    (shown,) = slurm.parse_nodes(played.run(["scontrol", "show", "nodes", action.name, "--oneliner"]))
    return observation.of_slurm(shown)


def test_what_slurm_shows_has_a_word() -> None:
    """States that were recorded on clusters, and those that power saving passes through."""
    recorded = {
        "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP": states.BOOTING,
        "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP": states.BOOTING,
        "DOWN+CLOUD+NOT_RESPONDING+POWERING_UP": states.DOWN,
        "DOWN+CLOUD+NOT_RESPONDING": states.DOWN,
        "DOWN+CLOUD+MAINTENANCE+POWERED_DOWN+RESERVED": states.DOWN_OFF,
        "IDLE+CLOUD+POWERING_DOWN": states.ENDING,
        "IDLE+CLOUD+POWERED_DOWN": states.OFF,
        "IDLE+CLOUD": states.UP,
        "IDLE+CLOUD+COMPLETING+DRAIN+POWER_DOWN": states.LAST_JOB,
        "IDLE+CLOUD+DRAIN+POWER_DOWN": states.ENDING,
    }
    assert {each: observation.of_slurm(slurm.Node("x", frozenset(each.split("+")))) for each in recorded} == recorded


def test_an_instance_from_before_the_launch_of_its_node_ends_while_its_node_is_launched() -> None:
    """SuspendProgram did not terminate it, and it may hold the capacity that the launch lacks."""
    one, seen = slurm.Node("train-2", frozenset(FLAGS[states.BOOTING].split("+"))), Seen()
    old = instance("train-2", launched=BEGAN - timedelta(minutes=9))
    for seconds in (0, 61):
        now = NOW + timedelta(seconds=seconds)
        found = decide(Snapshot(CLUSTER, [one], [old], now, launching=["train-2"], calls=["token"]), seen)
    assert [(action.verb, action.name) for action in found] == [("terminate", "i-1")]


def cell(words: states.Words, of: states.Words) -> str:
    if set(words) == set(of):
        return "any"
    left = [word for word in of if word not in words]
    return f"any except {', '.join(left)}" if len(left) < len(words) and len(left) < 4 else "; ".join(words)


def lines(table: Table) -> list[str]:
    titles = [title for title, _ in table.columns]
    head = [*titles, "the head node does", "why", "then"]
    return [
        "| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *(_row(table, x) for x in table.rules))
    ]


def _row(table: Table, rule: Rule) -> list[str]:
    lasts = f" after {rule.after.total_seconds():.0f} s" if rule.after else ""
    state = [cell(found, known) for found, (_, known) in zip(rule.state, table.columns, strict=True)]
    return [*state, f"`{rule.action}`{lasts}" if rule.action else "waits", rule.why, "; ".join(rule.then)]


@pytest.mark.parametrize("title", TABLES)
def test_the_page_shows_the_table(title: str) -> None:
    """GOLDEN=rewrite writes it."""
    before, heading, rest = PAGE.read_text().partition(f"### {title}\n\n")
    assert heading, f"docs/elasticity.md has no heading {title}"
    shown, _, following = rest.partition("\n\n")
    wanted = "\n".join(lines(TABLES[title]))
    if os.environ.get("GOLDEN") == "rewrite" and shown != wanted:
        PAGE.write_text(f"{before}{heading}{wanted}\n\n{following}")
        return
    assert shown.splitlines() == wanted.splitlines()
