"""The local cloud at AWS's pace: buckets, lags and states against a clock that only the test moves."""

from __future__ import annotations

import pytest
from werkzeug import Response

from localcloud.pace import figures
from localcloud.pace.clock import Clock
from localcloud.pace.hooks import Pace
from localcloud.pace.memory import Memory
from localcloud.protocol.calls import Call

FIGURES = figures.load("aws")


class HandClock(Clock):
    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def pace(clock: HandClock) -> Pace:
    made = Pace(lambda role_name: f"policies of {role_name}")
    made.begin("aws", clock)
    return made


def call(name: str, **form: str) -> Call:
    service, _, action = name.partition(":")
    return Call(service, "us-east-1", action, "AKIA", {"Action": action, **form} if service != "ssm" else {}, b"", "/z")


def done() -> Response:
    return Response("done")


def accepted(pace: Pace, clock: HandClock, name: str, times: int, **form: str) -> int:
    """How many of `times` simultaneous calls are not throttled."""
    count, at = 0, clock.at
    for _ in range(times):
        count += pace.answer(call(name, **form), done).status_code == 200
        clock.at = at
    return count


def test_every_figure_has_a_source_and_an_order() -> None:
    timed = (*FIGURES.pending, *FIGURES.shutting_down, *FIGURES.lag, *FIGURES.latency)
    assert all(0 < row.seconds[0] < row.seconds[1] for row in timed)
    assert all("/" in row.source or row.assumed for row in (*timed, *FIGURES.bucket))


@pytest.mark.parametrize(
    ("name", "form", "size", "per_s"),
    [
        ("ec2:RunInstances", {}, 5, 2),
        ("ec2:TerminateInstances", {"InstanceId.1": "i-1"}, 100, 5),
        ("ec2:CreateTags", {}, 100, 10),
        ("ec2:DescribeInstances", {"Filter.1.Name": "vpc-id"}, 100, 20),
        ("ec2:DescribeInstances", {"InstanceId.1": "i-1"}, 100, 20),
        ("ec2:DescribeInstances", {}, 50, 10),
        ("route53:ListResourceRecordSets", {}, 5, 5),
        ("ssm:GetParameter", {}, 40, 40),
    ],
)
def test_a_bucket_is_as_large_as_documented_and_refills(
    pace: Pace, clock: HandClock, name: str, form: dict[str, str], size: int, per_s: int
) -> None:
    assert accepted(pace, clock, name, size + 3, **form) == size
    clock.at += 1
    assert accepted(pace, clock, name, size + 3, **form) == per_s
    clock.at += 1000
    assert accepted(pace, clock, name, size + 3, **form) == size


def test_instances_have_a_separate_bucket(pace: Pace, clock: HandClock) -> None:
    assert accepted(pace, clock, "ec2:RunInstances", 1, MaxCount="1000") == 1
    assert accepted(pace, clock, "ec2:RunInstances", 1, MaxCount="1") == 0
    clock.at += 5
    assert accepted(pace, clock, "ec2:RunInstances", 1, MaxCount="11") == 0
    assert accepted(pace, clock, "ec2:RunInstances", 1, MaxCount="10") == 1


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("ec2:RunInstances", 503, b"RequestLimitExceeded"),
        ("route53:GetHostedZone", 400, b"<Code>Throttling</Code>"),
        ("ssm:GetParameter", 400, b"ThrottlingException"),
    ],
)
def test_throttling_has_the_services_error(pace: Pace, clock: HandClock, name: str, status: int, code: bytes) -> None:
    accepted(pace, clock, name, 40)
    refused = pace.answer(call(name), done)
    assert (refused.status_code, code in refused.get_data()) == (status, True)


def test_a_refused_launch_answers_sooner_than_one_that_launches(pace: Pace, clock: HandClock) -> None:
    pace.answer(call("ec2:RunInstances"), lambda: Response("", 500))
    assert 0.6 <= clock.at <= 1.3
    begun = clock.at
    pace.answer(call("ec2:RunInstances"), done)
    assert 2 <= clock.at - begun <= 3


def launch(pace: Pace, instance_id: str, instance_type: str) -> None:
    def made() -> Response:
        pace.starting(instance_id, instance_type)
        return Response("launched")

    pace.answer(call("ec2:RunInstances"), made)


def test_a_new_instance_is_not_shown_at_once(pace: Pace, clock: HandClock) -> None:
    launch(pace, "i-1", "c5.large")
    assert not pace.knows("i-1")
    answer = pace.answer(call("ec2:CreateTags", **{"ResourceId.1": "i-1"}), done)
    assert (answer.status_code, b"InvalidInstanceID.NotFound" in answer.get_data()) == (400, True)
    clock.at += 2
    assert pace.knows("i-1")
    assert pace.answer(call("ec2:DescribeInstances", **{"InstanceId.1": "i-1"}), done).status_code == 200


def test_policies_see_a_new_instances_tags_late(pace: Pace, clock: HandClock) -> None:
    launch(pace, "i-1", "c5.large")
    assert pace.tags_in_policies("i-1", {"a": "b"}) == {}
    clock.at += 2.5
    assert pace.tags_in_policies("i-1", {"a": "b"}) == {"a": "b"}


def test_changed_tags_are_shown_late(pace: Pace, clock: HandClock) -> None:
    pace.answer(call("ec2:CreateTags", **{"ResourceId.1": "vol-1"}), done)
    assert pace.tags("vol-1", {"new": "1"}) == {}
    clock.at += 2
    assert pace.tags("vol-1", {"new": "1"}) == {"new": "1"}


def test_a_refused_change_delays_nothing(pace: Pace, clock: HandClock) -> None:
    pace.answer(call("ec2:CreateTags", **{"ResourceId.1": "vol-1"}), lambda: Response("", 403))
    assert pace.tags("vol-1", {"new": "1"}) == {"new": "1"}


def test_changes_are_shown_in_order(clock: HandClock) -> None:
    memory = Memory(clock)
    memory.keep(("tags", "i-1"), "none", 2)
    clock.at += 1
    memory.keep(("tags", "i-1"), "launched", 3)
    shown = []
    for _ in range(5):
        shown.append(memory.seen(("tags", "i-1"), "named"))
        clock.at += 1
    assert shown == ["none", "launched", "launched", "named", "named"]


def test_iam_lags(pace: Pace, clock: HandClock) -> None:
    pace.answer(call("iam:PutRolePolicy", RoleName="head"), done)
    pace.answer(call("iam:CreateInstanceProfile", InstanceProfileName="head"), done)
    assert pace.policies("head", "new") == "policies of head"
    assert not pace.knows_profile("head")
    clock.at += 15
    assert pace.policies("head", "new") == "new"
    assert pace.knows_profile("head")


@pytest.mark.parametrize(
    ("instance_type", "pending", "ending"),
    [
        ("c5.large", (12, 31), (50, 70)),
        ("g4dn.xlarge", (40, 60), (300, 360)),
        ("p5.48xlarge", (40, 60), (360, 480)),
        ("c5.metal", (300, 420), (1140, 1320)),
        ("g4dn.metal", (300, 420), (1140, 1320)),
    ],
)
def test_an_instance_runs_and_ends_as_slowly_as_its_type(
    pace: Pace, clock: HandClock, instance_type: str, pending: tuple[int, int], ending: tuple[int, int]
) -> None:
    launch(pace, "i-1", instance_type)
    clock.at += pending[0] - 4  # the launch itself took up to 3
    assert pace.state("i-1", instance_type, "running") == "pending"
    clock.at += pending[1] - pending[0] + 4
    assert pace.state("i-1", instance_type, "running") == "running"
    assert pace.state("i-1", instance_type, "terminated") == "shutting-down"
    clock.at += ending[0] - 1
    assert pace.state("i-1", instance_type, "terminated") == "shutting-down"
    clock.at += ending[1] - ending[0] + 1
    assert pace.state("i-1", instance_type, "terminated") == "terminated"


def test_route_53_changes_a_zone_for_one_call_at_a_time(pace: Pace) -> None:
    inner: list[Response] = []

    def change() -> Response:
        inner.append(pace.answer(call("route53:ChangeResourceRecordSets"), done))
        return Response("changed")

    assert pace.answer(call("route53:ChangeResourceRecordSets"), change).status_code == 200
    assert b"PriorRequestNotComplete" in inner[0].get_data()


def test_the_quick_pace_hides_and_delays_nothing(clock: HandClock) -> None:
    quick = Pace()
    for _ in range(100):
        launch(quick, "i-1", "p5.48xlarge")
    assert (clock.at, quick.knows("i-1"), quick.state("i-1", "p5.48xlarge", "running")) == (0, True, "running")


def test_a_quicker_clock_keeps_the_ratios() -> None:
    made = Pace()
    made.begin("aws", Clock(scale=0.001))
    assert sum(made.answer(call("ec2:RunInstances"), done).status_code == 200 for _ in range(40)) > 30
    with pytest.raises(ValueError, match="scale must be greater than 0, got 0"):
        Clock(0)
