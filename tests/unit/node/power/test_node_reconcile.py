"""What reconcile decides, for each state that a node and its instance can be in together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import EndpointConnectionError
from gpucluster_node import ec2, fleet, retry, slurm
from gpucluster_node.power import ended, last_launches, outdated, requeued
from gpucluster_node.power.observation import Snapshot
from gpucluster_node.power.reconcile import Action, Seen, act, decide, explained

NOW = datetime(2026, 11, 21, 12, 0, 0)
CLUSTER = fleet.parse(
    {
        "cluster": "c",
        "zone": "c.internal",
        "ssm_path": "/gpucluster/c/",
        "partitions": [
            {
                "name": "train",
                "min_nodes": 1,
                "max_nodes": 3,
                "purchase": "on-demand",
            }
        ],
    }
)


def node(states: str, name: str = "train-2", reason: str = "", age_s: int = 0) -> slurm.Node:
    return slurm.Node(name, frozenset(states.split("+")), reason, NOW - timedelta(seconds=age_s) if reason else None)


def instance(name: str | None = "train-2", number: int = 1, boot_failure: str | None = None) -> ec2.Instance:
    launched = datetime(2026, 11, 21, 11, number, tzinfo=UTC)
    return ec2.Instance(f"i-{number}", "running", "10.0.0.1", launched, name, boot_failure)


def decided(nodes: list[slurm.Node], instances: list[ec2.Instance], *, after_s: int = 0) -> list[Action]:
    """The actions of the first look, or of one `after_s` later at a world that has not changed."""
    seen = Seen()
    if after_s:
        decide(Snapshot(CLUSTER, nodes, instances, NOW - timedelta(seconds=after_s)), seen)
    return decide(Snapshot(CLUSTER, nodes, instances, NOW), seen)


FAILED = "step=mpi line=5: no mpirun"
REFUSED = retry.reason("InsufficientInstanceCapacity: none left", 120)


@pytest.mark.parametrize(
    ("what", "states", "reason", "age_s", "has_instance", "verbs"),
    [
        ("idle and up", "IDLE+CLOUD", "", 0, True, []),
        ("idle and off", "IDLE+CLOUD+POWERED_DOWN", "", 0, False, []),
        ("going down", "IDLE+CLOUD+POWERING_DOWN", "", 0, True, []),
        ("just refused", "DOWN+CLOUD+POWERING_UP", REFUSED, 119, False, []),
        ("refused a while ago", "DOWN+CLOUD+POWERING_UP", REFUSED, 120, False, ["power_down_force"]),
        ("on its way down", "DOWN+CLOUD+POWERING_DOWN", REFUSED, 200, False, []),
        ("down and off", "DOWN+CLOUD+POWERED_DOWN", REFUSED, 200, False, ["resume"]),
        ("set down by a person", "DOWN+CLOUD", "bad GPU", 9999, True, []),
        ("drained by its own check", "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", "health: no GPU", 1, True, []),
        ("drained by a person", "IDLE+CLOUD+DRAIN", "bad GPU", 9999, True, []),
    ],
)
def test_one_node(what: str, states: str, reason: str, age_s: int, has_instance: bool, verbs: list[str]) -> None:
    actions = decided([node(states, reason=reason, age_s=age_s)], [instance()] if has_instance else [])
    assert [action.verb for action in actions] == verbs, what


def test_a_failed_boot_becomes_the_nodes_reason() -> None:
    actions = decided([node("ALLOCATED+CLOUD+POWERING_UP")], [instance(boot_failure=FAILED)])
    assert actions == [Action("down", "train-2", f"{FAILED}; next try in {retry.BOOT_FAILED_S} s")]


def test_a_responding_node_has_recovered_from_a_failed_boot() -> None:
    assert decided([node("IDLE+CLOUD")], [instance(boot_failure=FAILED)]) == []


@pytest.mark.parametrize(
    ("states", "after_s", "verbs"),
    [
        ("ALLOCATED+CLOUD", 0, []),
        ("ALLOCATED+CLOUD", 15, []),
        ("ALLOCATED+CLOUD", 1000, []),
        ("ALLOCATED+CLOUD+NOT_RESPONDING", 15, []),
        ("ALLOCATED+CLOUD+NOT_RESPONDING", 25, ["down"]),
        ("ALLOCATED+CLOUD+POWERING_UP", 25, []),
        ("ALLOCATED+CLOUD+POWERING_UP", 100, ["down"]),
        ("MIXED+CLOUD+DRAIN+POWER_DOWN", 15, []),
        ("MIXED+CLOUD+DRAIN+POWER_DOWN", 1000, []),
        ("MIXED+CLOUD+DRAIN+NOT_RESPONDING+POWER_DOWN", 25, ["down"]),
        ("IDLE+CLOUD+COMPLETING+DRAIN+NOT_RESPONDING+POWER_DOWN", 25, ["down"]),
        ("IDLE+CLOUD+DRAIN+POWER_DOWN", 25, []),
        ("ALLOCATED+CLOUD+POWERING_DOWN", 25, []),
    ],
)
def test_nodes_whose_instance_ec2_does_not_list(states: str, after_s: int, verbs: list[str]) -> None:
    """An answer may omit instances: a node that answers Slurm runs."""
    assert [action.verb for action in decided([node(states)], [], after_s=after_s)] == verbs


KEY = "Client.InternalError: Client error on launch"  # aws/karpenter-provider-aws#1407
NOW_AGAIN = "; next try at once"


@pytest.mark.parametrize(
    ("ended_by", "reason"),
    [
        (KEY, f"the EC2 instance of this node is gone: {KEY}; next try in 120 s"),
        (
            "Server.SpotInstanceTermination: Instance terminated by EC2",
            "the EC2 instance of this node is gone: "
            f"Server.SpotInstanceTermination: Instance terminated by EC2{NOW_AGAIN}",
        ),
        ("", f"the EC2 instance of this node is gone{NOW_AGAIN}"),
        (None, f"the EC2 instance of this node is gone{NOW_AGAIN}"),
    ],
)
def test_ec2s_reason_for_a_terminated_instance_is_used(ended_by: str | None, reason: str) -> None:
    asked: list[list[str]] = []

    def ended(names: Sequence[str]) -> list[ec2.Instance]:
        asked.append(list(names))
        return [replace(instance(), ended_by=ended_by)] if ended_by is not None else []

    silent = node("ALLOCATED+CLOUD+NOT_RESPONDING")
    gone = decided([silent, node("IDLE+CLOUD", "train-1")], [instance("train-1")], after_s=25)
    assert explained(gone, ended) == [Action("down", "train-2", reason)]
    assert asked == [["train-2"]]
    assert explained([Action("power_up", "train-1")], ended) == [Action("power_up", "train-1")]
    assert len(asked) == 1, "only where one is gone"


def test_a_node_that_was_not_launched_does_not_get_the_reason_of_an_earlier_instance() -> None:
    actions = decided([node("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP")], [], after_s=90)
    (action,) = explained(actions, lambda names: [replace(instance(), state="terminated", ended_by=KEY)])
    assert action.reason == "EC2 lists no instance of this node since its launch began; next try at once"


def test_always_on_nodes_are_powered_up() -> None:
    nodes = [node("IDLE+CLOUD+POWERED_DOWN", "train-1"), node("IDLE+CLOUD+POWERED_DOWN", "train-2")]
    assert decided(nodes, []) == [Action("power_up", "train-1")]


ORPHANS = {
    "no name": (node("IDLE+CLOUD+POWERED_DOWN"), [instance(None)], ["i-1"]),
    "no such node": (node("IDLE+CLOUD+POWERED_DOWN"), [instance("train-9")], ["i-1"]),
    "powered down": (node("IDLE+CLOUD+POWERED_DOWN"), [instance()], ["i-1"]),
    "powering up": (node("IDLE+CLOUD+POWERED_DOWN+POWERING_UP"), [instance()], []),
    "an older one": (node("IDLE+CLOUD"), [instance(number=2), instance(number=1)], ["i-1"]),
    "a newer one, which Slurm does not use": (
        replace(node("ALLOCATED+CLOUD"), address="10.0.0.1"),
        [replace(instance(number=2), private_ip="10.0.0.2"), instance(number=1)],
        ["i-2"],
    ),
}


@pytest.mark.parametrize("name", ORPHANS)
def test_orphans_are_terminated_after_a_while(name: str) -> None:
    one, instances, ended = ORPHANS[name]
    assert decided([one], instances) == []
    actions = decided([one], instances, after_s=61)
    assert [action.name for action in actions if action.verb == "terminate"] == ended


def test_a_condition_that_was_interrupted_starts_again() -> None:
    seen, key = Seen(), timedelta(seconds=8)
    for second, lasts in ((0, False), (5, False), (10, True)):
        seen.begin(NOW + timedelta(seconds=second))
        assert seen.lasts("x", key) is lasts
    seen.begin(NOW + timedelta(seconds=15))
    seen.begin(NOW + timedelta(seconds=20))
    assert seen.lasts("x", key) is False


OLD, NEW = ("lt-1", "1"), ("lt-1", "2")


def from_template(template: tuple[str, str] | None, states: str, wanted: tuple[str, str] | None = NEW) -> list[Action]:
    launched = ec2.Instance(
        "i-1", "running", "10.0.0.1", datetime(2026, 11, 21, 11, 0, tzinfo=UTC), "train-2", None, template
    )
    known = {"train": frozenset({wanted})} if wanted else {}
    return decide(Snapshot(CLUSTER, [node(states)], [launched], NOW, known), Seen())


@pytest.mark.parametrize(
    ("what", "template", "states", "goes"),
    [
        ("an old one, idle", OLD, "IDLE+CLOUD", True),
        ("an old one with a job: Slurm waits for it", OLD, "ALLOCATED+CLOUD", True),
        ("of a type that the partition has no longer", ("lt-2", "2"), "IDLE+CLOUD", True),
        ("the one that is wanted", NEW, "IDLE+CLOUD", False),
        ("not from a template", None, "IDLE+CLOUD", False),
        ("still booting", OLD, "ALLOCATED+CLOUD+POWERING_UP", False),
        ("its power-down was requested already", OLD, "ALLOCATED+CLOUD+DRAIN+POWER_DOWN", False),
        ("going", OLD, "IDLE+CLOUD+POWERING_DOWN", False),
        ("drained by a person", OLD, "IDLE+CLOUD+DRAIN", False),
    ],
)
def test_nodes_of_an_older_template_are_replaced_when_idle(
    what: str, template: tuple[str, str] | None, states: str, goes: bool
) -> None:
    assert [action.verb for action in from_template(template, states)] == ["power_down_asap"] * goes, what
    assert from_template(template, states, wanted=None) == [], "as long as nobody knows what is wanted"


class Parameters:
    """Parameter Store with one partition's parameter, counting how often it is asked."""

    def __init__(self, version: int) -> None:
        self.version, self.asked, self.answers = version, 0, True

    def get_parameter(self, Name: str) -> dict[str, dict[str, str]]:
        self.asked += 1
        assert Name == "/gpucluster/c/partitions/train"
        if not self.answers:
            raise EndpointConnectionError(endpoint_url="ssm")
        value = {
            "instance_types": [{"instance_type": "g5.xlarge", "launch_template_id": "lt-1", "version": self.version}]
        }
        return {"Parameter": {"Value": json.dumps(value)}}


def test_the_current_template_is_read_once_a_minute_and_kept_after_an_error() -> None:
    ssm, clock = Parameters(1), [0.0]
    wanted = outdated.Wanted(lambda: ssm, lambda: clock[0])
    for _ in range(3):
        assert wanted.of(CLUSTER, ["train"]) == {"train": {("lt-1", "1")}}
    assert ssm.asked == 1
    ssm.version, clock[0] = 2, outdated.REFRESH_S
    assert wanted.of(CLUSTER, ["train"]) == {"train": {("lt-1", "2")}}
    ssm.answers, clock[0] = False, 2 * outdated.REFRESH_S
    assert wanted.of(CLUSTER, ["train"]) == {"train": {("lt-1", "2")}}
    assert ssm.asked == 3


def test_ec2_says_which_template_an_instance_is_from() -> None:
    tags = [{"Key": key, "Value": value} for key, value in zip(ec2.TEMPLATE_TAGS, OLD, strict=True)]
    data = {"InstanceId": "i-1", "State": {"Name": "running"}, "LaunchTime": NOW}
    assert ec2._instance({**data, "Tags": tags}).template == OLD
    assert ec2._instance({**data, "Tags": tags[:1]}).template is None
    assert outdated.partitions(
        CLUSTER, [instance("train-2"), instance("train-3"), instance(None), instance("x-1")]
    ) == ["train"]


SUBMITTED = NOW - timedelta(seconds=7)


@pytest.mark.parametrize(
    ("what", "waits_s", "partition", "down", "starts"),
    [
        ("its node was lost", 121, "train", retry.gone(), True),
        ("its node did not boot", 121, "train", retry.reason(FAILED, retry.BOOT_FAILED_S), True),
        ("Slurm gave up", 121, "train", "ResumeTimeout reached", True),
        ("Slurm gave up after EC2 had refused", 121, "train", f"{REFUSED} : ResumeTimeout reached", True),
        ("its host broke", 121, "train", retry.gone("Server.InternalError: Internal error while running"), True),
        ("its instance would end again", 121, "train", retry.gone(KEY), False),
        ("EC2 refuses to launch", 121, "train", REFUSED, False),
        ("EC2 refuses to launch others", 121, "ps", REFUSED, True),
        ("the user's own begin time", 3600, "train", retry.gone(), False),
    ],
)
def test_a_requeued_job_starts_as_soon_as_it_may(
    what: str, waits_s: int, partition: str, down: str, starts: bool
) -> None:
    job = slurm.Requeued("7", frozenset({partition}), SUBMITTED, SUBMITTED + timedelta(seconds=waits_s))
    nodes = [node("DOWN+CLOUD", reason=down), node("IDLE+CLOUD", "train-1")]
    assert list(requeued.to_start(CLUSTER, [job], nodes, NOW)) == ["7"] * starts, what


@pytest.mark.parametrize(("ended_s_ago", "starts"), [(-1, False), (0, False), (1, False), (2, True)])
def test_a_requeued_job_does_not_start_in_the_second_in_which_its_last_run_ended(
    ended_s_ago: int, starts: bool
) -> None:
    """A node refuses its credential then (cred_context.c: ctime <= revoked)."""
    submitted = NOW - timedelta(seconds=ended_s_ago)
    job = slurm.Requeued("7", frozenset({"train"}), submitted, submitted + timedelta(seconds=121))
    assert list(requeued.to_start(CLUSTER, [job], [node("IDLE+CLOUD", "train-1")], NOW)) == ["7"] * starts


@pytest.mark.parametrize(
    ("states", "verbs"),
    [
        ("ALLOCATED+CLOUD+DRAIN+POWER_DOWN", ["down"]),
        ("IDLE+CLOUD+DRAIN+POWER_DOWN", []),
        ("IDLE+CLOUD+POWERING_DOWN", []),
    ],
    ids=["powered down after its job", "powered down next", "ended by Slurm"],
)
def test_a_node_can_be_lost_before_it_is_powered_down(states: str, verbs: list[str]) -> None:
    known, nodes = ended.Known(), [node(states)]
    known.ended(nodes, [instance()], lambda names: [], {})
    found = known.ended(nodes, [], lambda names: [replace(instance(), state="terminated")], {})
    assert [action.verb for action in decide(Snapshot(CLUSTER, nodes, [], NOW, ended=found), Seen())] == verbs


@pytest.mark.parametrize(
    ("state", "address"),
    [("terminated", ["nodeaddr=127.0.0.1"]), ("shutting-down", []), (None, [])],
    ids=["terminated", "shutting down: Slurm can still end its processes", "not listed: it may still run"],
)
def test_slurm_forgets_the_address_of_a_terminated_instance(
    state: str | None, address: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its request to end the job may reach a new node with this address, on which the job runs again."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "call", calls.append)
    nodes, known = [node("ALLOCATED+CLOUD+NOT_RESPONDING")], {"train-2": state} if state else {}
    seen = Seen()
    decide(Snapshot(CLUSTER, nodes, [], NOW - timedelta(seconds=60), ended=known), seen)
    act(decide(Snapshot(CLUSTER, nodes, [], NOW, ended=known), seen))
    assert calls == [["scontrol", "update", "nodename=train-2", "state=down", f"reason={retry.gone()}", *address]]


def test_nodes_are_resumed_together_as_they_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round may be long: meanwhile users set states, and Slurm's timeout ends power-downs."""
    names = [f"train-{number}" for number in range(1, 251)]
    now = {name: ("IDLE+CLOUD+POWERING_DOWN", "") for name in names}
    now["train-1"] = ("IDLE+CLOUD+DRAIN+POWERING_DOWN", "bad GPU")
    now["train-2"] = ("DOWN+CLOUD+POWERING_DOWN", "bad GPU")
    now["train-3"] = ("IDLE+CLOUD+FAIL+POWERING_DOWN", "bad GPU")
    now["train-4"] = ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "")
    now["train-5"] = ("DOWN+CLOUD+POWERED_DOWN", retry.gone())
    now["train-6"] = ("DOWN+CLOUD+POWERED_DOWN", "bad GPU")
    calls: list[list[str]] = []

    def scontrol(argv: Sequence[str]) -> str:
        calls.append(list(argv))
        if argv[1] == "update":
            return ""
        shown = ((name, *now[name]) for name in argv[3].split(","))
        return "".join(
            f"NodeName={n} State={state} Reason={why} [root@2020-01-01T12:00:00]\n" for n, state, why in shown
        )

    monkeypatch.setattr(slurm, "call", scontrol)
    act([*(Action("resume", name) for name in names), Action("power_up", "ps-1")])
    show, *updates, last = calls
    assert show == ["scontrol", "show", "nodes", ",".join(names), "--oneliner"]
    resumed = [name for argv in updates for name in argv[2].removeprefix("nodename=").split(",")]
    assert resumed == [name for name in names if name not in {f"train-{number}" for number in (1, 2, 3, 4, 6)}]
    assert [argv[3:] for argv in updates] == [["state=resume"]] * 3
    assert last == ["scontrol", "update", "nodename=ps-1", "state=power_up"]


def test_nodes_that_cannot_be_resumed_block_no_other_action(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def scontrol(argv: Sequence[str]) -> str:
        calls.append(list(argv))
        if argv[1] == "show":
            raise slurm.SlurmError("Unable to contact slurm controller")
        return ""

    monkeypatch.setattr(slurm, "call", scontrol)
    act([Action("resume", "train-2"), Action("power_up", "ps-1")])
    assert calls[1:] == [["scontrol", "update", "nodename=ps-1", "state=power_up"]]


def test_a_node_whose_instance_has_ended_is_down_at_once() -> None:
    """Not one of which an answer of EC2 says nothing, nor one whose name another instance had before."""
    asked: list[list[str]] = []
    over = [replace(instance("train-2", 2), state="terminated"), replace(instance("train-3", 1), state="terminated")]

    def ask(names: Sequence[str]) -> list[ec2.Instance]:
        asked.append(list(names))
        return [each for each in over if each.node in names]

    known, nodes = ended.Known(), [node("ALLOCATED+CLOUD"), node("ALLOCATED+CLOUD", "train-3")]
    assert known.ended(nodes, [instance("train-2", 2), instance("train-3", 4)], ask, {}) == {}
    assert asked == []
    found = known.ended(nodes, [], ask, {})
    assert (found, asked) == ({"train-2": "terminated"}, [["train-2", "train-3"]])
    assert decide(Snapshot(CLUSTER, nodes, [], NOW, ended=found), Seen()) == [
        Action("down", "train-2", retry.gone(), terminated=True)
    ]
    assert known.ended([node("DOWN+CLOUD"), nodes[1]], [instance("train-3", 4)], ask, {}) == {}
    assert known.ended([node("ALLOCATED+CLOUD+POWERING_UP")], [], ask, {}) == {}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("what", "record", "found"),
    [
        ("its instance has ended", last_launches.Launch("i-2", "10.0.0.2"), {"train-2": "terminated"}),
        ("its instance is not listed yet", last_launches.Launch("i-3", "10.0.0.2"), {}),
        ("the record is of an earlier launch", last_launches.Launch("i-2", "10.0.0.9"), {}),
        ("nothing is recorded", None, {}),
    ],
)
def test_the_instance_of_a_booting_node_is_the_one_that_was_launched_for_it(
    what: str, record: last_launches.Launch | None, found: dict[str, str]
) -> None:
    """Earlier instances of the node have ended too. They had its name."""
    over = [replace(instance("train-2", number), state="terminated") for number in (1, 2)]
    booting = replace(node("ALLOCATED+CLOUD+POWERING_UP"), address="10.0.0.2")
    launches = {"train-2": record} if record else {}
    assert ended.Known().ended([booting], [], lambda names: over, launches) == found, what
    assert ended.Known().ended([booting], [instance("train-2", 3)], lambda names: over, launches) == {}


RUNNING = last_launches.Launch("i-2", "10.0.0.2")
SUSPENDED = replace(RUNNING, suspended=True)


@pytest.mark.parametrize(
    ("what", "states", "record", "state", "reason", "free"),
    [
        ("its instance is terminated", "IDLE+CLOUD+POWERING_DOWN", SUSPENDED, "terminated", "", True),
        ("it still shuts down", "IDLE+CLOUD+POWERING_DOWN", SUSPENDED, "shutting-down", "", False),
        ("it is live, and EC2 omits it", "IDLE+CLOUD+POWERING_DOWN", SUSPENDED, "", "", False),
        ("its SuspendProgram still runs", "IDLE+CLOUD+POWERING_DOWN", RUNNING, "terminated", "", False),
        ("Slurm has not called SuspendProgram", "IDLE+CLOUD+POWER_DOWN", SUSPENDED, "terminated", "", False),
        ("none was launched", "IDLE+CLOUD+POWERING_DOWN", last_launches.Launch(suspended=True), "", REFUSED, True),
        ("one may be running", "IDLE+CLOUD+POWERING_DOWN", last_launches.Launch(suspended=True), "", FAILED, False),
        ("nothing is recorded", "IDLE+CLOUD+POWERING_DOWN", None, "terminated", REFUSED, False),
        ("a user drains it", "IDLE+CLOUD+DRAIN+POWERING_DOWN", SUSPENDED, "terminated", "bad GPU", False),
        ("`up --drain` drains it", "IDLE+CLOUD+DRAIN+POWERING_DOWN", SUSPENDED, "terminated", "up", False),
        ("a user sets it FAIL", "IDLE+CLOUD+FAIL+POWERING_DOWN", SUSPENDED, "terminated", "bad GPU", False),
        ("a user sets it DOWN", "DOWN+CLOUD+POWERING_DOWN", SUSPENDED, "terminated", "bad GPU", False),
    ],
)
def test_a_node_is_free_once_its_instance_and_its_suspend_program_are_over(
    what: str, states: str, record: last_launches.Launch | None, state: str, reason: str, free: bool
) -> None:
    over = [replace(instance("train-2", 2), state=state)] if state else []
    one, launches = node(states, reason=reason), {"train-2": record} if record else {}
    assert ended.free([one], {}, lambda names: over, launches) == ({"train-2"} if free else set()), what
    assert ended.free([one], {"train-2": instance()}, lambda names: over, launches) == set(), "it has an instance"
