"""Resume, suspend and release against botocore's Stubber: each call with its parameters, none left over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from gpucluster_node import aws, dns, ec2, fleet, names, rates, refusals, slurm
from gpucluster_node.head import release, update
from gpucluster_node.power import (
    failing,
    groups,
    in_flight,
    joining,
    launch,
    launched,
    offers,
    resume,
    shortage,
    suspend,
)

CLUSTER = fleet.parse(
    {
        "cluster": "c",
        "zone": "c.internal",
        "ssm_path": "/gpucluster/c/",
        "partitions": [
            {
                "name": name,
                "min_nodes": 0,
                "max_nodes": 4,
                "purchase": "on-demand",
            }
            for name in ("train", "ps")
        ],
    }
)
TYPES = [
    {"instance_type": "p4d.24xlarge", "launch_template_id": "lt-1", "version": 3},
    {"instance_type": "p4de.24xlarge", "launch_template_id": "lt-2", "version": "1"},
]
GROUP = groups.Group("train", ("train-1", "train-2"), 7)
LAUNCHED = datetime(2026, 11, 21, tzinfo=UTC)
ICE = ("InsufficientInstanceCapacity", "no p4d left")

Stubs = Callable[[str], Stubber]


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubs]:
    """stubs(service): its Stubber, active; at the end nothing may be pending."""
    made: dict[str, tuple[Any, Stubber]] = {}

    def client(service: str, attempts: int = 0) -> Any:
        if service not in made:
            one = boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
            made[service] = one, Stubber(one)
            made[service][1].activate()
        return made[service][0]

    def stub(service: str) -> Stubber:
        client(service)
        return made[service][1]

    for module in (joining, resume, suspend, release, update):
        monkeypatch.setattr(module, "client", client)
    yield stub
    for _, stubber in made.values():
        stubber.assert_no_pending_responses()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if nobody had called before."""
    monkeypatch.setattr(shortage, "FOLDER", tmp_path / "shortage")
    monkeypatch.setattr(launched, "FOLDER", tmp_path / "launched")
    monkeypatch.setattr(failing, "pauses", lambda now: {})
    monkeypatch.setattr(launch, "CALLS", rates.TokenBucket(100, 100))
    monkeypatch.setattr(ec2, "TAG_CALLS", rates.TokenBucket(100, 100))


@pytest.fixture
def scontrol(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The argument lists that would have been run."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "call", lambda argv: calls.append(list(argv)) or "")
    return calls


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Partition and code of each refusal that the dashboard would show."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(refusals, "record", lambda partition, code: found.append((partition, code)))
    return found


def parameter(stubs: Stubs, name: str, value: Any) -> None:
    answer = {"Parameter": {"Value": json.dumps(value)}}
    stubs("ssm").add_response("get_parameter", answer, {"Name": f"/gpucluster/c/{name}"})


def run_instances(template: str, version: str, count: int, least: int = 0) -> dict[str, Any]:
    launch_template = {"LaunchTemplateId": template, "Version": version}
    return {"LaunchTemplate": launch_template, "MinCount": least or count, "MaxCount": count, "ClientToken": ANY}


def instance(number: int, **tags: str) -> dict[str, Any]:
    return {
        "InstanceId": f"i-{number}",
        "State": {"Name": "pending"},
        "PrivateIpAddress": f"10.0.0.{number}",
        "LaunchTime": LAUNCHED,
        "AmiLaunchIndex": number - 1,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def expect_names(stubs: Stubs, value: str, *numbers: int) -> None:
    tags = [{"Key": "gpucluster:node", "Value": value}]
    stubs("ec2").add_response("create_tags", {}, {"Resources": [f"i-{each}" for each in numbers], "Tags": tags})


def expect_records(stubs: Stubs, action: str, records: dict[str, str]) -> None:
    changes = [
        {
            "Action": action,
            "ResourceRecordSet": {"Name": name, "Type": "A", "TTL": 10, "ResourceRecords": [{"Value": ip}]},
        }
        for name, ip in records.items()
    ]
    answer = {"ChangeInfo": {"Id": "x", "Status": "PENDING", "SubmittedAt": LAUNCHED}}
    given = {"HostedZoneId": "Z1", "ChangeBatch": {"Changes": changes}}
    stubs("route53").add_response("change_resource_record_sets", answer, given)


def resumed(group: groups.Group, folder: Path, sleep: Callable[[float], None] = lambda seconds: None) -> None:
    """sleep: seconds pass only there."""
    now = [0.0]

    def slept(seconds: float) -> None:
        now[0] += seconds
        sleep(seconds)

    record = in_flight.Record(group.nodes, folder)
    launcher = launch.Launcher(
        CLUSTER, "1", lambda: resume.client("ec2"), clock=lambda: now[0], sleep=slept, waits=record.waits
    )
    resume.Resume(CLUSTER, launcher, record).run([group])
    assert in_flight.nodes(folder) == frozenset()
    record.close()


def test_resume_launches_names_tells_slurm_and_tags(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    launched = {"Instances": [instance(2), instance(1)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-1", "3", 2))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_names(stubs, "0:train-[1-2]", 1, 2)
    resumed(GROUP, tmp_path)
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]


PAUSED = "launches of p4d.24xlarge pause until 07:13:00 UTC, because 3 of its instances failed in a row"


def test_a_type_that_pauses_is_not_launched(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing, "pauses", lambda now: {"p4d.24xlarge": PAUSED})
    monkeypatch.setattr(dns, "apply", lambda *given: None)
    monkeypatch.setattr(ec2, "tag", lambda *given: None)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    launched = {"Instances": [instance(1), instance(2)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-2", "1", 2))
    resumed(GROUP, tmp_path)
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]


def test_if_all_types_pause_the_launch_waits_and_says_why(
    stubs: Stubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = {each["instance_type"]: PAUSED for each in TYPES}
    monkeypatch.setattr(failing, "pauses", lambda now: paused)
    monkeypatch.setattr(dns, "apply", lambda *given: None)
    monkeypatch.setattr(ec2, "tag", lambda *given: None)
    asked_for = "NodeName={0} State=ALLOCATED+CLOUD+POWERING_UP\n"
    monkeypatch.setattr(slurm, "call", lambda argv: "".join(map(asked_for.format, GROUP.nodes)))
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    launched = {"Instances": [instance(1), instance(2)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-1", "3", 2))
    told: list[str] = []

    def sleep(seconds: float) -> None:
        told.extend(waiting["waits"]["train-2"] for waiting in map(json.loads, _texts(tmp_path)))
        if len(told) == 2:
            paused.clear()

    resumed(GROUP, tmp_path, sleep)
    assert told == [f"{PAUSED}; {PAUSED}"] * 2


def test_a_pause_that_outlasts_slurms_patience_sets_the_nodes_down_in_time(
    stubs: Stubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Slurm would give up on them without saying why (ResumeTimeout). They are requested two minutes later."""
    monkeypatch.setattr(failing, "pauses", lambda now: {each["instance_type"]: PAUSED for each in TYPES})
    asked_for, calls, waited = "NodeName={0} State=ALLOCATED+CLOUD+POWERING_UP\n", list[list[str]](), list[float]()

    def scontrol(argv: list[str]) -> str:
        calls.append(argv)
        return "".join(map(asked_for.format, GROUP.nodes))

    monkeypatch.setattr(slurm, "call", scontrol)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    resumed(GROUP, tmp_path, waited.append)
    assert sum(waited) == resume.ASK_S
    reason = f"reason={PAUSED}; {PAUSED}; next try in 120 s"
    assert calls[-1] == ["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]


def _texts(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.glob("*.json")]


NOT_FOUND = "InvalidInstanceID.NotFound"


def test_an_instance_that_ec2_does_not_know_yet_is_tagged_later(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    for _ in range(2):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    expect_names(stubs, "train-1", 1)
    ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))


def test_an_instance_whose_tags_iam_does_not_see_yet_is_tagged_later(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    for _ in range(8):
        stubs("ec2").add_client_error("create_tags", "UnauthorizedOperation", "You are not authorized")
    expect_names(stubs, "train-1", 1)
    ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    assert sum(slept) == 18


def test_tagging_gives_up_in_the_end(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    for _ in range(ec2.TAG_ATTEMPTS):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    with pytest.raises(ClientError, match="NotFound"):
        ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    assert 20 < sum(slept) < 30


@dataclass
class Tried(launch.Launched):
    instances: dict[str, ec2.Instance] = field(default_factory=dict)
    """As they were handed over."""


def tried(group: groups.Group, **options: Any) -> Tried:
    """Launched from both types."""
    templates = [fleet.LaunchTemplate(each["instance_type"], each["launch_template_id"], "1") for each in TYPES]
    options = {"sleep": lambda seconds: None} | options
    launcher = launch.Launcher(CLUSTER, "1", lambda: resume.client("ec2"), **options)
    instances: dict[str, ec2.Instance] = {}
    found = launcher.launch(group.nodes, templates, instances.update, together=group.job_id is not None)
    return Tried(found.left, found.errors, instances=instances)


def ids(found: Tried) -> dict[str, str]:
    return {node: each.instance_id for node, each in found.instances.items()}


def test_the_next_type_is_tried_where_one_has_no_capacity(stubs: Stubs) -> None:
    stubs("ec2").add_client_error(
        "run_instances", *ICE, http_status_code=500, expected_params=run_instances("lt-1", "1", 2)
    )
    launched = {"Instances": [instance(1), instance(2)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-2", "1", 2))
    assert ids(tried(GROUP)) == {"train-1": "i-1", "train-2": "i-2"}


SINGLES = groups.Group("train", ("train-1", "train-2", "train-3", "train-4"))


def test_single_nodes_use_the_available_capacity_and_another_type_for_the_rest(stubs: Stubs) -> None:
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]}, run_instances("lt-1", "1", 4, least=1))
    stubs("ec2").add_client_error(
        "run_instances", *ICE, http_status_code=500, expected_params=run_instances("lt-1", "1", 3, least=1)
    )
    others = {"Instances": [instance(number) for number in (2, 3, 4)]}
    stubs("ec2").add_response("run_instances", others, run_instances("lt-2", "1", 3, least=1))
    found = tried(SINGLES)
    assert ids(found) == {"train-1": "i-1", "train-2": "i-2", "train-3": "i-3", "train-4": "i-4"}
    assert [type(error).__name__ for _, error in found.errors] == ["ClientError"]


def test_single_nodes_use_the_rest_of_a_quota(stubs: Stubs) -> None:
    """EC2 may hold MaxCount against the quota: then fewer are asked for."""
    quota = ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 192 allows")
    for template in ("lt-1", "lt-2"):
        count = 4 if template == "lt-1" else 2
        stubs("ec2").add_client_error("run_instances", *quota, expected_params=run_instances(template, "1", count, 1))
        if template == "lt-1":
            two = {"Instances": [instance(1), instance(2)]}
            stubs("ec2").add_response("run_instances", two, run_instances("lt-1", "1", 2, least=1))
            stubs("ec2").add_client_error("run_instances", *quota, expected_params=run_instances("lt-1", "1", 2, 1))
        stubs("ec2").add_client_error("run_instances", *quota, expected_params=run_instances(template, "1", 1, 1))
    found = tried(SINGLES)
    assert (list(found.instances), found.left) == (["train-1", "train-2"], ["train-3", "train-4"])


def test_a_throttled_launch_waits_and_is_no_lack_of_capacity(stubs: Stubs) -> None:
    slept: list[float] = []
    tokens: list[str] = []
    for _ in range(8):
        stubs("ec2").add_client_error(
            "run_instances", "RequestLimitExceeded", "Request limit exceeded.", http_status_code=503
        )
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    resume.client("ec2").meta.events.register(
        "before-parameter-build", lambda params, **_: tokens.append(params["ClientToken"])
    )
    found = tried(GROUP, sleep=slept.append)
    assert (len(found.instances), found.errors) == (2, [])
    assert len(set(tokens)) == 1, "a repeated call must not launch twice"
    assert len(slept) == 8
    assert 60 < sum(slept) < 150


def test_a_launch_throttled_for_too_long_fails_without_trying_other_types(stubs: Stubs) -> None:
    now = [0.0]
    for _ in range(2):
        stubs("ec2").add_client_error("run_instances", "RequestLimitExceeded", "Request limit exceeded.")

    def sleep(seconds: float) -> None:
        now[0] += launch.PATIENCE_S

    found = tried(GROUP, clock=lambda: now[0], sleep=sleep)
    assert (found.left, found.why) == (
        ["train-1", "train-2"],
        "RequestLimitExceeded: Request limit exceeded. (p4d.24xlarge)",
    )


def test_ec2s_server_errors_are_retried_with_the_same_token(stubs: Stubs) -> None:
    stubs("ec2").add_client_error("run_instances", "InternalError", "An internal error", http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    assert len(tried(GROUP).instances) == 2


def test_a_launch_waits_while_the_head_nodes_credentials_have_expired(stubs: Stubs) -> None:
    for _ in range(8):
        stubs("ec2").add_client_error("run_instances", "RequestExpired", "Request has expired.", http_status_code=400)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    found = tried(GROUP, sleep=lambda seconds: None)
    assert (len(found.instances), found.errors) == (2, [])


def test_a_launch_waits_while_ec2_is_unavailable(stubs: Stubs) -> None:
    """For minutes, and not only for the few calls of an internal error."""
    for _ in range(8):
        stubs("ec2").add_client_error(
            "run_instances", "Unavailable", "The service is unavailable.", http_status_code=503
        )
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    found = tried(GROUP)
    assert (len(found.instances), found.errors) == (2, [])


def bought(purchase: str) -> fleet.Fleet:
    return replace(CLUSTER, partitions=tuple(replace(each, purchase=purchase) for each in CLUSTER.partitions))


def waits(stubs: Stubs, found: launch.Launched, cluster: fleet.Fleet = CLUSTER, since: float = 0.0) -> list[float]:
    slept: list[float] = []

    def no_launch() -> Any:
        raise AssertionError("the client that repeats nothing is for launches alone")

    launcher = launch.Launcher(cluster, "1", no_launch, clock=lambda: 0.0, sleep=slept.append)
    assert launcher.wait_for_room(resume.client("ec2"), found, since) is bool(slept)
    return slept


def test_a_full_reservation_is_waited_for_while_own_instances_end(stubs: Stubs) -> None:
    full = ("ReservationCapacityExceeded", "The requested reservation does not have sufficient capacity")
    for _ in TYPES:
        stubs("ec2").add_client_error("run_instances", *full)
    found = tried(GROUP)
    expect_describe(stubs, instance(9), states=("shutting-down",))
    assert waits(stubs, found) == [launch.LOOK_FOR_ROOM_S]
    expect_describe(stubs, states=("shutting-down",))
    assert waits(stubs, found) == [], "nothing ends"
    assert waits(stubs, found, since=-launch.ROOM_S) == [], "waited long enough"
    assert waits(stubs, launch.Launched(left=["train-1"])) == [], "another reason"


@pytest.mark.parametrize(
    ("purchase", "is_full"), [("on-demand", False), ("spot", False), ("reservation", True), ("capacity-block", True)]
)
def test_insufficient_capacity_of_a_reservation_means_that_it_is_full(
    stubs: Stubs, purchase: str, is_full: bool
) -> None:
    for _ in TYPES:
        stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    found = tried(GROUP)
    if is_full:
        expect_describe(stubs, instance(9), states=("shutting-down",))
    assert bool(waits(stubs, found, bought(purchase))) is is_full


def test_single_nodes_use_the_rest_of_a_capacity_block(stubs: Stubs) -> None:
    template = [fleet.LaunchTemplate("p4d.24xlarge", "lt-1", "1")]
    for count in (4, 2, 1):
        wanted = run_instances("lt-1", "1", count, 1)
        if count > 1:
            stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500, expected_params=wanted)
        else:
            stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]}, wanted)
            stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500, expected_params=wanted)
    launcher = launch.Launcher(bought("capacity-block"), "1", lambda: resume.client("ec2"))
    found = launcher.launch(SINGLES.nodes, template, lambda instances: None, together=False)
    assert found.left == ["train-2", "train-3", "train-4"]


def test_instances_get_their_name_before_more_are_launched(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call may be throttled for longer than a boot waits for its name. The Stubber holds the order."""
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]}, run_instances("lt-1", "3", 4, least=1))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1"})
    expect_names(stubs, "train-1", 1)
    others = {"Instances": [instance(number) for number in (2, 3, 4)]}
    stubs("ec2").add_response("run_instances", others, run_instances("lt-1", "3", 3, least=1))
    expect_records(stubs, "UPSERT", {f"train-{number}.c.internal": f"10.0.0.{number}" for number in (2, 3, 4)})
    expect_names(stubs, "1:train-[2-4]", 2, 3, 4)
    resumed(SINGLES, tmp_path)
    assert [call[2:] for call in scontrol] == [
        ["nodename=train-1", "nodeaddr=10.0.0.1"],
        ["nodename=train-2,train-3,train-4", "nodeaddr=10.0.0.2,10.0.0.3,10.0.0.4"],
    ]


def test_named_instances_stay_when_a_later_launch_fails(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path
) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1"})
    expect_names(stubs, "train-1", 1)
    stubs("ec2").add_response("run_instances", {})
    resumed(SINGLES, tmp_path)
    assert [call[2:4] for call in scontrol[1:]] == [["nodename=train-2,train-3,train-4", "state=down"]]


def refusing_parameters(stubs: Stubs) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES[:1], "subnet_id": "subnet-1"})


def test_a_refused_launch_sets_the_nodes_down_with_ec2s_code(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, counted: list[tuple[str, str]]
) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", "Unsupported", "not in your zone", http_status_code=400)
    resumed(GROUP, tmp_path)
    reason = "reason=Unsupported: not in your zone (p4d.24xlarge); next try in 120 s"
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]
    assert counted == [("train", "Unsupported")]


class Waiting:
    """Slurm and a user, while a launch waits for capacity."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.state, self.slept, self.updates = folder, "ALLOCATED", 0.0, list[list[str]]()
        self.read: set[str] = set()
        self.cancelled_after_s = float("inf")
        monkeypatch.setattr(slurm, "call", self._scontrol)

    def _scontrol(self, argv: Sequence[str]) -> str:
        if argv[1] == "update":
            self.updates.append(list(argv))
            return ""
        state = "ALLOCATED" if self.slept < self.cancelled_after_s else "IDLE"
        return "".join(
            f"NodeName={name} Arch=x86_64 State={state}+CLOUD+NOT_RESPONDING+POWERING_UP Partitions=train\n"
            for name in argv[3].split(",")
        )

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.read |= {
            why for path in self.folder.glob("*.json") for why in json.loads(path.read_text())["waits"].values()
        }


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(tmp_path, monkeypatch)


def test_capacity_that_comes_back_is_found_within_20_s(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    refusals_in_a_row = 4
    for _ in range(refusals_in_a_row):
        for _ in TYPES:
            stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_names(stubs, "0:train-[1-2]", 1, 2)
    resumed(GROUP, waiting.folder, waiting.sleep)
    assert refusals_in_a_row * 12 <= waiting.slept <= refusals_in_a_row * 20
    assert [update[2:] for update in waiting.updates] == [["nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]
    why = "; ".join(f"{ICE[0]}: {ICE[1]} ({each['instance_type']})" for each in TYPES)
    assert waiting.read == {f"{why}; the head node retries every 15 s"}


def test_capacity_that_does_not_come_back_is_given_up(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]
) -> None:
    """Before Slurm gives up, so that a node that is launched late can still boot."""
    refusing_parameters(stubs)
    resume.client("ec2").meta.events.register("before-call", lambda **_: None)
    for _ in range(100):
        stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stub = stubs("ec2")
    resumed(GROUP, waiting.folder, waiting.sleep)
    asked = 100 - len(stub._queue)
    stub._queue.clear()
    assert 900 <= waiting.slept <= 920
    assert 900 / 18 <= asked <= 900 / 12 + 1
    reason = "reason=InsufficientInstanceCapacity: no p4d left (p4d.24xlarge); next try in 120 s"
    assert waiting.updates == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_a_cancelled_jobs_launch_is_not_retried(stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    waiting.cancelled_after_s = 0
    monkey = patch.object(shortage, "_BETWEEN_S", (16.0, 16.5))
    with monkey:
        resumed(GROUP, waiting.folder, waiting.sleep)
    reason = "reason=no job waits for it any longer, and EC2 has launched no instance; next try at once"
    assert waiting.updates == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_launches_of_a_partition_take_turns() -> None:
    now = 0.0
    first, second = (shortage.Turns("train", lambda: now) for _ in range(2))
    with first.waiting(), second.waiting():
        assert second.may_call(2), "no call has failed"
        first.failed()
        assert not first.may_call(2) and not second.may_call(2)
        assert shortage.Turns("ps", lambda: now).may_call(8), "of another partition"
        now += 17
        assert second.may_call(2)
        assert not first.may_call(2), "while the other one asks"
        second.succeeded()
        assert first.may_call(2)


def test_the_launch_of_the_fewest_nodes_asks_first() -> None:
    """Ten jobs of eight nodes wait, and one of two: capacity for two is found at the next turn, not at the tenth."""
    now = 0.0
    many, few = [shortage.Turns("train", lambda: now) for _ in range(10)], shortage.Turns("train", lambda: now)
    many[0].failed()
    with ExitStack() as waiting:
        for each in many:
            waiting.enter_context(each.waiting())
            assert not each.may_call(8)
        with few.waiting():
            assert not few.may_call(2)
            now += 17
            assert not any(each.may_call(8) for each in many)
            assert few.may_call(2)
        few.succeeded()
        assert all(each.may_call(8) for each in many), "there is some capacity"


def test_a_launch_that_gets_some_instances_gives_all_others_a_turn(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]]
) -> None:
    """Jobs of one node use each instance that becomes free: a job of two nodes would never have a turn."""
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    larger, may_call = shortage.Turns("train", lambda: 0.0), list[bool]()
    for numbers in ((1,), (2, 3, 4)):
        stubs("ec2").add_response("run_instances", {"Instances": [instance(number) for number in numbers]})
        addresses = {f"train-{number}.c.internal": f"10.0.0.{number}" for number in numbers}
        expect_records(stubs, "UPSERT", addresses)
        stubs("ec2").add_response("create_tags", {})
        if numbers == (1,):
            for _ in TYPES:
                stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)

    def sleep(seconds: float) -> None:
        waiting.sleep(seconds)
        may_call.append(larger.may_call(2))

    with larger.waiting():
        resumed(SINGLES, waiting.folder, sleep)
    assert may_call == [True]


def test_a_new_launch_does_not_put_off_the_turn_of_those_that_wait() -> None:
    now = 0.0
    waits = shortage.Turns("train", lambda: now)
    waits.failed()
    with waits.waiting():
        turns = 0
        new = shortage.Turns("train", lambda: now)
        for _ in range(20):
            now += 1
            turns += waits.may_call(1)
            new.failed()
        assert turns == 1


@pytest.mark.parametrize("turn_s", shortage._BETWEEN_S)
def test_a_launch_without_capacity_uses_types_that_are_added_meanwhile(
    stubs: Stubs, waiting: Waiting, counted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, turn_s: float
) -> None:
    """At its next turn, however early that comes."""
    monkeypatch.setattr(shortage, "_BETWEEN_S", (turn_s, turn_s))
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]}, run_instances("lt-2", "1", 2))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_names(stubs, "0:train-[1-2]", 1, 2)
    resumed(GROUP, waiting.folder, waiting.sleep)


def test_an_instance_is_tagged_also_if_ec2_is_unavailable_for_a_while(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was terminated instead, EC2 might have no capacity for another one."""
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    monkeypatch.setattr(ec2.time, "monotonic", lambda: sum(slept))
    for _ in range(5):
        stubs("ec2").add_client_error("create_tags", "Unavailable", "The service is unavailable.", http_status_code=503)
    expect_names(stubs, "train-1", 1)
    ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    assert 30 < sum(slept) < 65
    for _ in range(40):
        stubs("ec2").add_client_error("create_tags", "Unavailable", "The service is unavailable.", http_status_code=503)
    with pytest.raises(ClientError, match="Unavailable"):
        ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    stubs("ec2")._queue.clear()


def test_a_refused_permission_is_a_reason_that_can_be_read(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, counted: list[tuple[str, str]]
) -> None:
    refusing_parameters(stubs)
    said = "You are not authorized to perform this operation. Encoded authorization failure message: " + "Vv" * 900
    stubs("ec2").add_client_error("run_instances", "UnauthorizedOperation", said, http_status_code=403)
    resumed(GROUP, tmp_path)
    assert scontrol[0][-1] == (
        "reason=UnauthorizedOperation: You are not authorized to perform this operation. (p4d.24xlarge); "
        "next try in 120 s"
    )


def assigned(stubs: Stubs, **records: str) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})


def test_if_one_instance_cannot_be_named_all_of_its_job_are_terminated(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assigned(stubs)
    stubs("ec2").add_client_error("create_tags", "TagLimitExceeded", "no")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    resumed(GROUP, tmp_path)
    reason = "reason=TagLimitExceeded: no; next try in 120 s"
    assert scontrol[1:] == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_an_instance_whose_tags_iam_does_not_see_yet_is_ended_later(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    assigned(stubs)
    stubs("ec2").add_client_error("create_tags", "TagLimitExceeded", "no")
    stubs("ec2").add_client_error("terminate_instances", "UnauthorizedOperation", "not yet")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    resumed(GROUP, tmp_path)
    assert scontrol[1][3] == "state=down"


def test_of_single_nodes_only_the_unnamed_instance_is_terminated(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    assigned(stubs)
    for _ in range(ec2.TAG_ATTEMPTS):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-2' does not exist")
    expect_names(stubs, "0:train-[1-2]", 1)
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-2"]})
    resumed(groups.Group("train", ("train-1", "train-2")), tmp_path)
    assert [call[2:4] for call in scontrol[1:]] == [["nodename=train-2", "state=down"]]


def test_an_instance_that_ec2_does_not_know_yet_does_not_stop_the_termination_of_others(stubs: Stubs) -> None:
    said = "The instance IDs 'i-0a' do not exist"
    stubs("ec2").add_client_error("terminate_instances", NOT_FOUND, said)
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-0b", "i-0c"]})
    ec2.terminate(resume.client("ec2"), ["i-0b", "i-0a", "i-0c"])


def test_client_tokens_differ_by_attempt_group_and_template() -> None:
    first, second = (fleet.LaunchTemplate(name, f"lt-{name}", "1") for name in "ab")
    tokens = [
        ec2.client_token("1", ["train-1"], first),
        ec2.client_token("2", ["train-1"], first),
        ec2.client_token("1", ["train-2"], first),
        ec2.client_token("1", ["train-1"], second),
    ]
    assert len(set(tokens)) == 4
    assert tokens[0] == ec2.client_token("1", ["train-1"], first)
    assert all(len(token) <= 64 for token in tokens)


def test_groups_keep_a_jobs_nodes_together_and_gather_single_ones() -> None:
    jobs = [
        {"job_id": 7, "nodes_resume": "train-[1-2]"},
        {"job_id": 8, "nodes_resume": "train-[2-3],ps-1"},
        {"job_id": 9, "nodes_resume": "train-4"},
    ]
    wanted = slurm.expand("train-[1-4],ps-[1-3],gone-1")
    jobs.append({"job_id": 10, "nodes_resume": "ps-[2-3]"})
    assert groups.groups(CLUSTER, wanted, jobs) == [
        groups.Group("train", ("train-1", "train-2"), 7),
        groups.Group("ps", ("ps-2", "ps-3"), 10),
        groups.Group("train", ("train-3", "train-4")),
        groups.Group("ps", ("ps-1",)),
    ]


def test_a_request_has_the_jobs_of_slurms_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resume"
    file.write_text('{"all_nodes_resume": "train-1", "jobs": [{"job_id": 7, "nodes_resume": "train-1"}]}')
    monkeypatch.setenv("SLURM_RESUME_FILE", str(file))
    wanted = offers.Request(["train-1", "train-2"], [{"job_id": 7, "nodes_resume": "train-1"}])
    assert offers.read("train-[1-2]") == wanted
    monkeypatch.delenv("SLURM_RESUME_FILE")
    assert offers.read("train-1") == offers.Request(["train-1"], [])


LIVE = ("pending", "running", "stopping", "stopped")


def expect_describe(stubs: Stubs, *instances: dict[str, Any], states: tuple[str, ...] = LIVE) -> None:
    filters = [
        {"Name": "tag:gpucluster:cluster", "Values": ["c"]},
        {"Name": "tag:gpucluster:role", "Values": ["compute"]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    answer = {"Reservations": [{"Instances": [each]} for each in instances]}
    stubs("ec2").add_response("describe_instances", answer, {"Filters": filters, "MaxResults": 1000})


def record(name: str, ip: str, kind: str = "A") -> dict[str, Any]:
    return {"Name": name, "Type": kind, "TTL": 10, "ResourceRecords": [{"Value": ip}]}


def expect_listing(stubs: Stubs, *records: dict[str, Any]) -> None:
    answer = {"ResourceRecordSets": list(records), "IsTruncated": False, "MaxItems": "300"}
    stubs("route53").add_response("list_resource_record_sets", answer, {"HostedZoneId": "Z1"})


def test_suspend_terminates_only_the_named_nodes_and_removes_their_records(stubs: Stubs) -> None:
    """They share a tag's value with others. train-4 still has the value of an earlier release; i-5 has none."""
    tags = {"gpucluster:node": "0:train-[1-3]"}
    named = [instance(number, **tags) for number in (1, 2, 3)]
    expect_describe(stubs, *named, instance(4, **{"gpucluster:node": "train-4"}), instance(5))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-4"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, record("train-1.c.internal.", "10.0.0.1"), record("train-2.c.internal.", "10.0.0.2"))
    expect_records(stubs, "DELETE", {"train-1.c.internal.": "10.0.0.1"})
    suspend.suspend(CLUSTER, ["train-1", "train-4"], LAUNCHED)


def test_suspend_leaves_an_instance_that_was_launched_after_it_was_asked(stubs: Stubs) -> None:
    later = instance(1, **{"gpucluster:node": "train-1"})
    expect_describe(stubs, later)
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED - timedelta(seconds=1))


def test_suspend_of_no_node_terminates_nothing(stubs: Stubs) -> None:
    """Where nobody is named, EC2 would describe every instance."""
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, [], LAUNCHED)


def test_suspend_of_nodes_without_instances_ends_nothing(stubs: Stubs) -> None:
    expect_describe(stubs)
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED)
    assert launched.read(["train-1"]) == {"train-1": launched.Launch(suspended=True)}


def test_suspend_records_its_end_with_the_instance_of_the_launch(stubs: Stubs) -> None:
    """Nothing of train-2, whose instance is not recorded: nobody could tell when it is over."""
    launched.write({"train-1": ec2._instance(instance(1))})
    expect_describe(stubs, instance(1, **{"gpucluster:node": "train-1"}), instance(2, **{"gpucluster:node": "train-2"}))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1", "train-2"], LAUNCHED)
    ended = launched.Launch("i-1", "10.0.0.1", suspended=True)
    assert launched.read(["train-1", "train-2"]) == {"train-1": ended}


def test_a_late_suspend_does_not_record_the_end_of_the_next_launch(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched.write({"train-1": ec2._instance(instance(1))})
    expect_describe(stubs)
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    monkeypatch.setattr(dns, "remove", lambda *given: launched.write({"train-1": ec2._instance(instance(2))}))
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED)
    assert launched.read(["train-1"]) == {"train-1": launched.Launch("i-2", "10.0.0.2")}


def test_release_terminates_all_nodes_and_keeps_the_heads_record(stubs: Stubs) -> None:
    expect_describe(stubs, instance(1), instance(2))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, record("head.c.internal.", "10.0.0.9"), record("ps-12.c.internal.", "10.0.0.2"))
    expect_records(stubs, "DELETE", {"ps-12.c.internal.": "10.0.0.2"})
    release.release(CLUSTER)


def test_a_record_that_changed_meanwhile_is_kept_and_the_others_are_deleted(stubs: Stubs) -> None:
    """Recorded answer: Tried to delete resource record set ... but it was not found (of a whole batch)."""
    before = [record("ps-1.c.internal.", "10.0.0.1"), record("ps-2.c.internal.", "10.0.0.2")]
    expect_listing(stubs, *before)
    said = "[Tried to delete resource record set [name='ps-1.c.internal.', type='A'] but it was not found]"
    stubs("route53").add_client_error("change_resource_record_sets", "InvalidChangeBatch", said)
    expect_listing(stubs, record("ps-1.c.internal.", "10.0.0.7"), before[1])
    expect_records(stubs, "DELETE", {"ps-2.c.internal.": "10.0.0.2"})
    dns.remove(release.client("route53"), "Z1", CLUSTER.is_node_record)


SOA = {"Name": "c.internal.", "Type": "SOA"}
NAME_SERVER = "ns-1536.awsdns-00.co.uk. awsdns-hostmaster.amazon.com. 1 7200 900 1209600"


def soa(ttl_s: int, minimum_s: int) -> dict[str, Any]:
    return {**SOA, "TTL": ttl_s, "ResourceRecords": [{"Value": f"{NAME_SERVER} {minimum_s}"}]}


def test_missing_names_are_cached_only_briefly(stubs: Stubs) -> None:
    expect_listing(stubs, record("ps-1.c.internal.", "10.0.0.1"), soa(900, 86400))
    answer = {"ChangeInfo": {"Id": "x", "Status": "PENDING", "SubmittedAt": LAUNCHED}}
    changes = {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": soa(10, 10)}]}
    given = {"HostedZoneId": "Z1", "ChangeBatch": changes}
    stubs("route53").add_response("change_resource_record_sets", answer, given)
    dns.shorten_negative_answers(release.client("route53"), "Z1")
    expect_listing(stubs, soa(10, 10))
    dns.shorten_negative_answers(release.client("route53"), "Z1")


@pytest.mark.parametrize(
    ("jobs", "off"),
    [
        ("123 poweroff.target start waiting\n124 x.service stop running", True),
        ("123 reboot.target start waiting", False),
        ("124 gpucluster-release.service stop running", False),
        ("", False),
    ],
)
def test_only_a_power_off_ends_the_fleet(jobs: str, off: bool) -> None:
    assert release.powering_off(jobs) is off


@pytest.mark.parametrize(
    ("names", "deleted"),
    [
        (("head.c.internal.", "train-1.c.internal."), False),
        (("train-1.c.internal.",), True),
        (("ahead.c.internal.",), True),
    ],
    ids=["only the instance is terminated", "CloudFormation has deleted the head's record", "another name"],
)
def test_the_heads_record_shows_whether_the_stack_is_deleted(
    stubs: Stubs, names: tuple[str, ...], deleted: bool
) -> None:
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, *(record(name, "10.0.0.1") for name in names))
    assert release.stack_is_deleted(CLUSTER) is deleted


def test_dns_changes_are_split_into_calls_within_route_53s_limits(stubs: Stubs) -> None:
    addresses = {f"train-{n}": "10.0.0.1" for n in range(501)}
    changes = dns.upsert("c.internal", addresses)
    client = boto3.client("route53", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    sizes: list[int] = []
    client.meta.events.register(
        "before-parameter-build", lambda params, **_: sizes.append(len(params["ChangeBatch"]["Changes"]))
    )
    with Stubber(client) as stub:
        for _ in range(2):
            answer = {"ChangeInfo": {"Id": "x", "Status": "PENDING", "SubmittedAt": LAUNCHED}}
            stub.add_response("change_resource_record_sets", answer)
        dns.apply(client, "Z1", changes)
        stub.assert_no_pending_responses()
    assert sizes == [500, 1]


def test_error_code_is_ec2s_code_or_the_exceptions_name() -> None:
    from botocore.exceptions import ClientError, ConnectTimeoutError

    refused = ClientError({"Error": {"Code": ICE[0], "Message": ICE[1]}}, "RunInstances")
    assert (aws.error_code(refused), aws.error_message(refused)) == ICE
    assert aws.error_code(ConnectTimeoutError(endpoint_url="http://x")) == "ConnectTimeoutError"
