"""The head node at EC2's scheduled events, failed status checks, and the ends of Capacity Blocks.

The answers are XML as EC2 sends it, by its API reference (InstanceStatus, InstanceStatusEvent, CapacityReservation):
botocore parses them, and refuses parameters that EC2 does not have.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from gpucluster_node import ec2, fleet, retry, slurm
from gpucluster_node.power import announced, limits
from played_slurm import PlayedSlurm

from gpucluster_job import ending

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
BLOCK = "cr-0123456789abcdef0"


class Raw:
    def __init__(self, text: str) -> None:
        self.text = text

    def stream(self) -> list[bytes]:
        return [self.text.encode()]


def utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.000Z}"


def event(code: str, at: datetime, description: str = "The instance is scheduled for a reboot") -> str:
    return (
        "<eventsSet><item><instanceEventId>instance-event-0d59937288b749b32</instanceEventId>"
        f"<code>{code}</code><description>{description}</description><notBefore>{utc(at)}</notBefore></item></eventsSet>"
    )


class Ec2:
    """EC2's side: what it says of instances, by the filter that finds it, and of reservations."""

    def __init__(self) -> None:
        self.statuses: dict[tuple[str, str], str] = {}
        """Filter and instance id -> the rest of the instance's item."""
        self.block_ends: datetime | None = None
        self.asked: list[str] = []
        self.refuses = False
        self.client = boto3.client("ec2", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        self.client.meta.events.register("before-send.ec2", self._answer)

    def _answer(self, request: Any, **_: object) -> AWSResponse:
        form = request.body.decode() if isinstance(request.body, bytes) else request.body
        action = next(part.partition("=")[2] for part in form.split("&") if part.startswith("Action="))
        self.asked.append(action)
        if self.refuses:
            error = "<Code>UnauthorizedOperation</Code><Message>no</Message>"
            text = f"<Response><Errors><Error>{error}</Error></Errors></Response>"
            return AWSResponse(request.url, 403, {}, Raw(text))  # type: ignore[arg-type]
        inner = self._statuses(form) if action == "DescribeInstanceStatus" else self._reservations()
        return AWSResponse(request.url, 200, {}, Raw(f"<{action}Response>{inner}</{action}Response>"))  # type: ignore[arg-type]

    def _statuses(self, form: str) -> str:
        items = (
            f"<item><instanceId>{id_}</instanceId>{rest}</item>"
            for (name, id_), rest in self.statuses.items()
            if f"Filter.1.Name={name}" in form
        )
        return f"<instanceStatusSet>{''.join(items)}</instanceStatusSet>"

    def _reservations(self) -> str:
        assert self.block_ends
        return (
            f"<capacityReservationSet><item><capacityReservationId>{BLOCK}</capacityReservationId>"
            f"<endDate>{utc(self.block_ends)}</endDate></item></capacityReservationSet>"
        )


class Head(PlayedSlurm):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ec2 = Ec2()
        self.states, self.instance_id, self.block = "ALLOCATED+CLOUD", "i-1", ""
        self.announced = announced.Announced(lambda: self.ec2.client)

    def look(self, at: datetime) -> list[list[str]]:
        self.ran = []
        launched = NOW - timedelta(hours=1)
        train = ec2.Instance(self.instance_id, "running", None, launched, "train-1", None, capacity_block=self.block)
        other = ec2.Instance("i-9", "running", None, launched, "train-2", None, capacity_block=self.block)
        nodes = [
            slurm.Node("train-1", frozenset(self.states.split("+"))),
            slurm.Node("train-2", frozenset({"IDLE", "CLOUD"})),
            slurm.Node("train-3", frozenset({"IDLE", "CLOUD", "POWERED_DOWN"})),
        ]
        self.announced.look(nodes, {"train-1": train, "train-2": other}, at)
        return self.ran


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    made = Head(tmp_path)
    monkeypatch.setattr(slurm, "call", made.run)
    return made


def down(reason: str, node: str = "train-1", state: str = "power_down_asap") -> list[str]:
    return ["scontrol", "update", f"nodename={node}", f"state={state}", f"reason={reason}"]


def comment(reason: str, job: str = "7") -> list[str]:
    return ["scontrol", "update", f"jobid={job}", f"admincomment=run 0: train-1 was lost: {reason}"]


def test_it_asks_once_a_minute_and_of_reservations_only_in_a_capacity_block(head: Head) -> None:
    for seconds in range(0, 121, 5):
        assert head.look(NOW + timedelta(seconds=seconds)) == []
    assert head.ec2.asked == ["DescribeInstanceStatus"] * 4 * 3


def test_a_job_leaves_before_a_scheduled_event(head: Head) -> None:
    head.submit("--signal=B:USR1@300")
    at = NOW + timedelta(hours=30)
    head.ec2.statuses["event.code", "i-1"] = event("system-reboot", at)
    words = "EC2 plans system-reboot at 2026-02-01T18:00:00Z"
    assert head.look(NOW) == []
    assert head.look(at - timedelta(hours=24)) == [down(words)]
    assert head.look(at - timedelta(seconds=301)) == []
    left = [comment(words), ["scancel", "--batch", "--signal=USR1", "7"]]
    assert head.look(at - timedelta(seconds=299)) == left
    assert head.look(at - timedelta(seconds=41)) == []
    assert head.look(at - timedelta(seconds=40)) == [["scontrol", "requeue", "incomplete", "7"]]
    assert head.look(at - timedelta(seconds=35)) == [], "once"


def test_a_job_without_a_signal_is_requeued(head: Head) -> None:
    head.submit()
    at = NOW + timedelta(seconds=119)
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", at)
    words = "EC2 plans instance-stop at 2026-01-31T12:01:59Z"
    assert head.look(NOW) == [down(words), comment(words)]
    assert head.look(at - timedelta(seconds=30)) == [["scontrol", "requeue", "incomplete", "7"]]


@pytest.mark.parametrize("begins", ["[Completed] ", "[Canceled] "])
def test_an_event_that_is_over_does_not_count(head: Head, begins: str) -> None:
    head.ec2.statuses["event.code", "i-1"] = event("system-reboot", NOW, f"{begins}The instance was scheduled")
    assert head.look(NOW) == []


def test_an_elastic_job_stays(head: Head) -> None:
    head.submit("--no-kill")
    head.ec2.statuses["event.code", "i-1"] = event("instance-retirement", NOW)
    assert ["scontrol", "requeue", "incomplete", "7"] not in head.look(NOW)


def test_an_element_of_an_array_is_requeued_alone(head: Head) -> None:
    """Slurm may know the array by the same number."""
    head.submit("--signal=B:USR1@60", array=("7", "3"))
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", NOW)
    ran = head.look(NOW)
    assert ran[1:] == [
        comment("EC2 plans instance-stop at 2026-01-31T12:00:00Z", "7_3"),
        ["scancel", "--batch", "--signal=USR1", "7_3"],
        ["scontrol", "requeue", "incomplete", "7_3"],
    ]


def test_a_node_that_somebody_drained_stays_drained(head: Head) -> None:
    """Powering it down would end the drain, and a job could launch it again."""
    head.submit()
    head.states = "ALLOCATED+CLOUD+DRAIN"
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", NOW)
    ran = head.look(NOW)
    assert ["scontrol", "requeue", "incomplete", "7"] in ran
    assert [argv for argv in ran if "nodename=train-1" in argv] == []


@pytest.mark.parametrize(
    ("filter_", "name"),
    [
        ("instance-status.status", "instance status"),
        ("system-status.status", "system status"),
        ("attached-ebs-status.status", "attached EBS status"),
    ],
)
def test_a_status_check_that_fails_for_three_minutes_ends_the_node_after_its_job(
    head: Head, filter_: str, name: str
) -> None:
    """The answer as older boto3 sees it: without the check itself."""
    head.submit()
    head.ec2.statuses[filter_, "i-1"] = ""
    assert [head.look(NOW + timedelta(seconds=at)) for at in range(0, 180, 5)] == [[]] * 36
    assert head.look(NOW + timedelta(seconds=180)) == [down(f"EC2's status checks fail: {name} impaired")]
    assert head.look(NOW + timedelta(seconds=300)) == [], "once; its job goes on"


def test_a_status_check_that_recovers_does_not_count(head: Head) -> None:
    head.ec2.statuses["instance-status.status", "i-1"] = ""
    head.look(NOW)
    head.ec2.statuses.clear()
    head.look(NOW + timedelta(minutes=1))
    head.ec2.statuses["instance-status.status", "i-1"] = ""
    assert [head.look(NOW + timedelta(minutes=at)) for at in (2, 3, 4)] == [[], [], []]


def test_a_check_does_not_count_while_ec2_does_not_answer(head: Head) -> None:
    """It may have recovered meanwhile."""
    head.ec2.statuses["instance-status.status", "i-1"] = ""
    head.look(NOW)
    head.ec2.refuses = True
    assert [head.look(NOW + timedelta(minutes=at)) for at in (1, 2, 3, 4)] == [[]] * 4
    head.ec2.refuses = False
    assert head.look(NOW + timedelta(minutes=5)) != [], "it fails still"


def test_a_boot_whose_check_fails_for_three_minutes_is_given_up(head: Head) -> None:
    head.states = "ALLOCATED+CLOUD+POWERING_UP"
    head.ec2.statuses["instance-status.status", "i-1"] = ""
    assert [head.look(NOW + timedelta(seconds=at)) for at in range(0, 180, 5)] == [[]] * 36
    why = "health: it does not boot: EC2's status checks fail: instance status impaired; next try at once"
    assert head.look(NOW + timedelta(seconds=180)) == [down(why, state="down")]
    node = slurm.Node("train-1", frozenset({"DOWN", "CLOUD", "POWERING_UP"}), why, NOW.replace(tzinfo=None))
    assert retry.is_due(node, NOW.replace(tzinfo=None)), "its instance is terminated at once"


def test_a_check_that_fails_during_the_boot_does_not_count_later(head: Head) -> None:
    head.states = "IDLE+CLOUD+POWERING_UP"
    head.ec2.statuses["instance-status.status", "i-1"] = ""
    for minutes in range(3):
        assert head.look(NOW + timedelta(minutes=minutes)) == []
    head.states = "IDLE+CLOUD"
    for minutes in range(3, 6):
        assert head.look(NOW + timedelta(minutes=minutes)) == []
    assert head.look(NOW + timedelta(minutes=6)) != []


def test_the_nodes_of_a_capacity_block_are_drained_and_their_job_gets_one_signal(head: Head) -> None:
    """The block ends half an hour after its instances."""
    head.submit("--signal=B:TERM@900", nodes="train-[1-2]")
    head.block, head.ec2.block_ends = BLOCK, NOW + timedelta(hours=1)
    words = f"Capacity Block {BLOCK}: EC2 will terminate it at 2026-01-31T12:30:00Z"
    assert head.look(NOW) == []
    signalled = [comment(words), ["scancel", "--batch", "--signal=TERM", "7"]]
    assert head.look(NOW + timedelta(minutes=15)) == signalled
    drained = [down(words, node, "drain") for node in ("train-1", "train-2")]
    assert head.look(NOW + timedelta(minutes=20)) == drained
    head.states = "ALLOCATED+CLOUD+DRAIN"
    assert head.look(NOW + timedelta(minutes=20, seconds=5)) == []
    assert ["scontrol", "requeue", "incomplete", "7"] in head.look(NOW + timedelta(minutes=29, seconds=30))


@pytest.mark.parametrize(("minutes", "launched"), [(41, True), (40, False), (-1, False)])
def test_no_node_is_launched_in_a_capacity_block_that_ends(head: Head, minutes: int, launched: bool) -> None:
    """Its boot would be in vain: from 40 minutes before its end the block's nodes are drained."""
    head.ec2.block_ends = NOW + timedelta(minutes=minutes)
    block = fleet.Partition("block", 0, 9, "capacity-block", reservation_id=BLOCK)
    cluster = fleet.Fleet("c", "c.internal", "/c/", (block, fleet.Partition("train", 0, 9, "on-demand")))
    limited = limits.Limits(cluster, lambda: head.ec2.client, lambda: NOW)
    assert limited.room("train", []) == limits.UNLIMITED
    room = limited.room("block", [])
    assert head.ec2.asked == ["DescribeCapacityReservations"]
    if launched:
        assert room == limits.UNLIMITED
    else:
        at = f"{NOW + timedelta(minutes=minutes - 30):%Y-%m-%dT%H:%M:%SZ}"
        why = f"EC2 terminates its instances from {at} on, and no more are launched in it"
        assert room == limits.Room(0, f"Capacity Block {BLOCK} ends: {why}")


def test_a_launch_in_a_capacity_block_whose_end_is_not_known_is_tried(head: Head) -> None:
    head.ec2.refuses = True
    block = fleet.Partition("block", 0, 9, "capacity-block", reservation_id=BLOCK)
    cluster = fleet.Fleet("c", "c.internal", "/c/", (block,))
    assert limits.Limits(cluster, lambda: head.ec2.client, lambda: NOW).room("block", []) == limits.UNLIMITED


def test_a_later_end_counts_after_an_event_has_begun(head: Head) -> None:
    head.submit("--no-kill")
    head.ec2.statuses["event.code", "i-1"] = event("system-maintenance", NOW - timedelta(hours=1))
    head.block, head.ec2.block_ends = BLOCK, NOW + timedelta(minutes=35)
    assert "state=drain" in head.look(NOW)[0]


def test_the_next_instance_of_a_node_begins_anew(head: Head) -> None:
    words = "EC2 plans instance-stop at 2026-01-31T12:00:00Z"
    for head.instance_id in ("i-1", "i-2"):
        head.ec2.statuses["event.code", head.instance_id] = event("instance-stop", NOW)
        head.announced._asked = None
        assert head.look(NOW) == [down(words)]


@pytest.mark.parametrize(
    "states", ["IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_UP", "DOWN+CLOUD", "IDLE+POWERING_DOWN"]
)
def test_a_node_that_is_not_in_service_is_left_alone(head: Head, states: str) -> None:
    head.states = states
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", NOW)
    assert head.look(NOW) == []


def test_instances_of_others_do_not_count(head: Head) -> None:
    head.ec2.statuses["event.code", "i-77"] = event("instance-stop", NOW)
    assert head.look(NOW) == []
    assert head.announced._watches == {}


def test_what_ec2_refuses_or_slurm_does_not_do_is_tried_again(head: Head) -> None:
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", NOW)
    head.ec2.refuses = True
    assert head.look(NOW) == []
    head.ec2.refuses, head.refuses = False, "power_down_asap"
    assert head.look(NOW + timedelta(minutes=1)) == []
    head.refuses = ""
    assert head.look(NOW + timedelta(minutes=1, seconds=5)) != []


def test_a_job_reads_its_reason_from_the_comment(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    head.submit()
    head.block, head.ec2.block_ends = BLOCK, NOW + timedelta(minutes=30)
    (block,) = (argv[-1] for argv in head.look(NOW) if argv[2] == "jobid=7")
    head.announced._asked, head.block, head.announced._watches, head.comments = None, "", {}, ""
    head.ec2.statuses["event.code", "i-1"] = event("instance-stop", NOW)
    (stop,) = (argv[-1] for argv in head.look(NOW) if argv[2] == "jobid=7")
    job: Any = SimpleNamespace(job_id="7", runs_before=0)
    for said in (block, stop):
        shown = f"JobId=7 JobName=x AdminComment={said.partition('=')[2]} Restarts=0 "
        monkeypatch.setattr(ending, "_shown", lambda job, text=shown: text)
        assert ending._announced(job) == said.partition("run 0: ")[2]


def test_the_instances_of_a_capacity_block_are_known() -> None:
    data = {"InstanceId": "i-1", "State": {"Name": "running"}, "LaunchTime": NOW, "CapacityReservationId": BLOCK}
    assert ec2._instance(data).capacity_block == "", "a reservation that does not end"
    assert ec2._instance(data | {"InstanceLifecycle": "capacity-block"}).capacity_block == BLOCK
