"""Resume, suspend and release against botocore's Stubber: each call with its parameters, none left over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from gpucluster_node import aws, dns, ec2, fleet, rates, refusals, slurm
from gpucluster_node.head import release, update
from gpucluster_node.power import in_flight, launch, resume, suspend

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
GROUP = resume.Group("train", ("train-1", "train-2"), 7)
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

    for module in (resume, suspend, release, update):
        monkeypatch.setattr(module, "client", client)
    yield stub
    for _, stubber in made.values():
        stubber.assert_no_pending_responses()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had called before."""
    monkeypatch.setattr(launch, "CALLS", rates.TokenBucket(100, 100))
    monkeypatch.setattr(ec2, "TAG_CALLS", rates.TokenBucket(100, 100))


@pytest.fixture
def scontrol(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The argument lists that would have been run."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "_run", lambda argv: calls.append(list(argv)) or "")
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


def expect_tags(stubs: Stubs, number: int, node: str) -> None:
    tags = [{"Key": "Name", "Value": f"c-{node}"}, {"Key": "gpucluster:node", "Value": node}]
    stubs("ec2").add_response("create_tags", {}, {"Resources": [f"i-{number}"], "Tags": tags})


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


def resumed(group: resume.Group, folder: Path) -> None:
    launcher = launch.Launcher(CLUSTER, "1", lambda: resume.client("ec2"), sleep=lambda seconds: None)
    record = in_flight.Record(group.nodes, folder)
    resume.Resume(CLUSTER, launcher, record).run([group])
    assert in_flight.nodes(folder) == frozenset()
    record.close()


def test_resume_launches_names_tells_slurm_and_tags(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "TAGS_AT_ONCE", 1)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    launched = {"Instances": [instance(2), instance(1)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-1", "3", 2))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    expect_tags(stubs, 1, "train-1")
    expect_tags(stubs, 2, "train-2")
    resumed(GROUP, tmp_path)
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]


NOT_FOUND = "InvalidInstanceID.NotFound"


def test_an_instance_that_ec2_does_not_know_yet_is_tagged_later(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    for _ in range(2):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    expect_tags(stubs, 1, "train-1")
    ec2.tag(resume.client("ec2"), ec2.tag_request(CLUSTER, "i-1", "train-1"))


def test_an_instance_whose_tags_iam_does_not_see_yet_is_tagged_later(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    for _ in range(3):
        stubs("ec2").add_client_error("create_tags", "UnauthorizedOperation", "You are not authorized")
    expect_tags(stubs, 1, "train-1")
    ec2.tag(resume.client("ec2"), ec2.tag_request(CLUSTER, "i-1", "train-1"))
    assert sum(slept) == 3


def test_tagging_gives_up_in_the_end(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    for _ in range(ec2.TAG_ATTEMPTS):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    with pytest.raises(ClientError, match="NotFound"):
        ec2.tag(resume.client("ec2"), ec2.tag_request(CLUSTER, "i-1", "train-1"))
    assert 20 < sum(slept) < 30


@dataclass
class Tried(launch.Launched):
    instances: dict[str, ec2.Instance] = field(default_factory=dict)
    """As they were handed over."""


def tried(group: resume.Group, **options: Any) -> Tried:
    """Launched from both types."""
    templates = [fleet.LaunchTemplate(each["instance_type"], each["launch_template_id"], "1") for each in TYPES]
    options = {"sleep": lambda seconds: None} | options
    launcher = launch.Launcher(CLUSTER, "1", lambda: resume.client("ec2"), **options)
    instances: dict[str, ec2.Instance] = {}
    found = launcher.launch(group.nodes, templates, instances.update, together=group.job_id is not None)
    return Tried(found.left, found.errors, instances)


def ids(found: Tried) -> dict[str, str]:
    return {node: each.instance_id for node, each in found.instances.items()}


def test_the_next_type_is_tried_where_one_has_no_capacity(stubs: Stubs) -> None:
    stubs("ec2").add_client_error(
        "run_instances", *ICE, http_status_code=500, expected_params=run_instances("lt-1", "1", 2)
    )
    launched = {"Instances": [instance(1), instance(2)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-2", "1", 2))
    assert ids(tried(GROUP)) == {"train-1": "i-1", "train-2": "i-2"}


SINGLES = resume.Group("train", ("train-1", "train-2", "train-3", "train-4"))


def test_single_nodes_take_what_there_is_and_the_rest_another_type(stubs: Stubs) -> None:
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]}, run_instances("lt-1", "1", 4, least=1))
    stubs("ec2").add_client_error(
        "run_instances", *ICE, http_status_code=500, expected_params=run_instances("lt-1", "1", 3, least=1)
    )
    others = {"Instances": [instance(number) for number in (2, 3, 4)]}
    stubs("ec2").add_response("run_instances", others, run_instances("lt-2", "1", 3, least=1))
    found = tried(SINGLES)
    assert ids(found) == {"train-1": "i-1", "train-2": "i-2", "train-3": "i-3", "train-4": "i-4"}
    assert [type(error).__name__ for _, error in found.errors] == ["ClientError"]


def test_single_nodes_take_what_a_quota_leaves(stubs: Stubs) -> None:
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


def test_a_launch_throttled_for_too_long_is_given_up_without_asking_for_other_types(stubs: Stubs) -> None:
    now = [0.0]
    for _ in range(2):
        stubs("ec2").add_client_error("run_instances", "RequestLimitExceeded", "Request limit exceeded.")

    def sleep(seconds: float) -> None:
        now[0] += launch.THROTTLED_S

    found = tried(GROUP, clock=lambda: now[0], sleep=sleep)
    assert (found.left, found.why) == (
        ["train-1", "train-2"],
        "RequestLimitExceeded: Request limit exceeded. (p4d.24xlarge)",
    )


def test_ec2s_own_faults_are_tried_again_with_the_same_token(stubs: Stubs) -> None:
    stubs("ec2").add_client_error("run_instances", "InternalError", "An internal error", http_status_code=500)
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    assert len(tried(GROUP).instances) == 2


def bought(purchase: str) -> fleet.Fleet:
    return replace(CLUSTER, partitions=tuple(replace(each, purchase=purchase) for each in CLUSTER.partitions))


def waits(stubs: Stubs, found: launch.Launched, cluster: fleet.Fleet = CLUSTER, since: float = 0.0) -> list[float]:
    slept: list[float] = []

    def no_launch() -> Any:
        raise AssertionError("the client that repeats nothing is for launches alone")

    launcher = launch.Launcher(cluster, "1", no_launch, clock=lambda: 0.0, sleep=slept.append)
    assert launcher.wait_for_room(resume.client("ec2"), found, since) is bool(slept)
    return slept


def test_full_while_own_instances_end_is_waited_for(stubs: Stubs) -> None:
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
def test_what_is_reserved_is_full_where_ec2_has_no_capacity(stubs: Stubs, purchase: str, is_full: bool) -> None:
    for _ in TYPES:
        stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    found = tried(GROUP)
    if is_full:
        expect_describe(stubs, instance(9), states=("shutting-down",))
    assert bool(waits(stubs, found, bought(purchase))) is is_full


def test_single_nodes_take_what_is_left_of_a_capacity_block(stubs: Stubs) -> None:
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
    monkeypatch.setattr(resume, "TAGS_AT_ONCE", 1)
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]}, run_instances("lt-1", "3", 4, least=1))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1"})
    expect_tags(stubs, 1, "train-1")
    others = {"Instances": [instance(number) for number in (2, 3, 4)]}
    stubs("ec2").add_response("run_instances", others, run_instances("lt-1", "3", 3, least=1))
    expect_records(stubs, "UPSERT", {f"train-{number}.c.internal": f"10.0.0.{number}" for number in (2, 3, 4)})
    for number in (2, 3, 4):
        expect_tags(stubs, number, f"train-{number}")
    resumed(SINGLES, tmp_path)
    assert [call[2:] for call in scontrol] == [
        ["nodename=train-1", "nodeaddr=10.0.0.1"],
        ["nodename=train-2,train-3,train-4", "nodeaddr=10.0.0.2,10.0.0.3,10.0.0.4"],
    ]


def test_what_has_its_name_stays_up_when_a_later_launch_breaks_off(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path
) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1)]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1"})
    expect_tags(stubs, 1, "train-1")
    stubs("ec2").add_response("run_instances", {})
    resumed(SINGLES, tmp_path)
    assert [call[2:4] for call in scontrol[1:]] == [["nodename=train-2,train-3,train-4", "state=down"]]


def refusing_parameters(stubs: Stubs) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES[:1], "subnet_id": "subnet-1"})


def test_a_refused_launch_sets_the_nodes_down_with_ec2s_code(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, counted: list[tuple[str, str]]
) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *ICE, http_status_code=500)
    resumed(GROUP, tmp_path)
    reason = "reason=InsufficientInstanceCapacity: no p4d left (p4d.24xlarge); next try in 120 s"
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]
    assert counted == [("train", "InsufficientInstanceCapacity")]


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


def test_a_job_of_which_one_instance_cannot_be_named_is_ended(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "TAGS_AT_ONCE", 1)
    assigned(stubs)
    expect_tags(stubs, 1, "train-1")
    stubs("ec2").add_client_error("create_tags", "TagLimitExceeded", "no")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    resumed(GROUP, tmp_path)
    reason = "reason=TagLimitExceeded: no; next try in 120 s"
    assert scontrol[1:] == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_an_instance_whose_tags_iam_does_not_see_yet_is_ended_later(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(resume, "TAGS_AT_ONCE", 1)
    assigned(stubs)
    expect_tags(stubs, 1, "train-1")
    stubs("ec2").add_client_error("create_tags", "TagLimitExceeded", "no")
    stubs("ec2").add_client_error("terminate_instances", "UnauthorizedOperation", "not yet")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    resumed(GROUP, tmp_path)
    assert scontrol[1][3] == "state=down"


def test_of_single_nodes_only_the_one_that_cannot_be_named_is_ended(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "TAGS_AT_ONCE", 1)
    assigned(stubs)
    expect_tags(stubs, 1, "train-1")
    stubs("ec2").add_client_error("create_tags", "TagLimitExceeded", "no")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-2"]})
    resumed(resume.Group("train", ("train-1", "train-2")), tmp_path)
    assert [call[2:4] for call in scontrol[1:]] == [["nodename=train-2", "state=down"]]


def test_an_instance_that_ec2_does_not_know_yet_keeps_no_other_from_being_ended(stubs: Stubs) -> None:
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
    assert resume.groups(CLUSTER, wanted, jobs) == [
        resume.Group("train", ("train-1", "train-2"), 7),
        resume.Group("ps", ("ps-2", "ps-3"), 10),
        resume.Group("train", ("train-3", "train-4")),
        resume.Group("ps", ("ps-1",)),
    ]


def test_waiting_jobs_reads_slurms_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resume"
    file.write_text('{"all_nodes_resume": "train-1", "jobs": [{"job_id": 7, "nodes_resume": "train-1"}]}')
    monkeypatch.setenv("SLURM_RESUME_FILE", str(file))
    assert resume.waiting_jobs() == [{"job_id": 7, "nodes_resume": "train-1"}]
    monkeypatch.delenv("SLURM_RESUME_FILE")
    assert resume.waiting_jobs() == []


LIVE = ("pending", "running", "stopping", "stopped")


def expect_describe(
    stubs: Stubs, *instances: dict[str, Any], nodes: tuple[str, ...] = (), states: tuple[str, ...] = LIVE
) -> None:
    filters = [
        {"Name": "tag:gpucluster:cluster", "Values": ["c"]},
        {"Name": "tag:gpucluster:role", "Values": ["compute"]},
        {"Name": "instance-state-name", "Values": list(states)},
    ]
    if nodes:
        filters.append({"Name": "tag:gpucluster:node", "Values": list(nodes)})
    answer = {"Reservations": [{"Instances": [each]} for each in instances]}
    stubs("ec2").add_response("describe_instances", answer, {"Filters": filters, "MaxResults": 1000})


def record(name: str, ip: str, kind: str = "A") -> dict[str, Any]:
    return {"Name": name, "Type": kind, "TTL": 10, "ResourceRecords": [{"Value": ip}]}


def expect_listing(stubs: Stubs, *records: dict[str, Any]) -> None:
    answer = {"ResourceRecordSets": list(records), "IsTruncated": False, "MaxItems": "300"}
    stubs("route53").add_response("list_resource_record_sets", answer, {"HostedZoneId": "Z1"})


def test_suspend_ends_only_the_nodes_named_and_forgets_them(stubs: Stubs) -> None:
    expect_describe(stubs, instance(1, **{"gpucluster:node": "train-1"}), nodes=("train-1",))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, record("train-1.c.internal.", "10.0.0.1"), record("train-2.c.internal.", "10.0.0.2"))
    expect_records(stubs, "DELETE", {"train-1.c.internal.": "10.0.0.1"})
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED)


def test_suspend_leaves_an_instance_that_was_launched_after_it_was_asked(stubs: Stubs) -> None:
    later = instance(1, **{"gpucluster:node": "train-1"})
    expect_describe(stubs, later, nodes=("train-1",))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED - timedelta(seconds=1))


def test_suspend_of_many_nodes_asks_for_200_at_a_time(stubs: Stubs) -> None:
    nodes = tuple(f"train-{number}" for number in range(1, 251))
    expect_describe(stubs, instance(1), nodes=nodes[:200])
    expect_describe(stubs, instance(2), nodes=nodes[200:])
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, nodes, LAUNCHED)


def test_suspend_of_no_node_ends_nothing(stubs: Stubs) -> None:
    """Where nobody is named, EC2 would describe every instance."""
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, [], LAUNCHED)


def test_suspend_of_nodes_without_instances_ends_nothing(stubs: Stubs) -> None:
    expect_describe(stubs, nodes=("train-1",))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED)


def test_release_ends_everything_and_leaves_the_heads_record(stubs: Stubs) -> None:
    expect_describe(stubs, instance(1), instance(2))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, record("head.c.internal.", "10.0.0.9"), record("ps-12.c.internal.", "10.0.0.2"))
    expect_records(stubs, "DELETE", {"ps-12.c.internal.": "10.0.0.2"})
    release.release(CLUSTER)


def test_a_record_that_changed_meanwhile_is_left_and_the_others_go(stubs: Stubs) -> None:
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


def test_that_a_name_is_not_there_is_soon_forgotten(stubs: Stubs) -> None:
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


def test_dns_changes_go_in_calls_that_route_53_takes(stubs: Stubs) -> None:
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


def test_error_code_is_ec2s_word_or_the_kind_of_fault() -> None:
    from botocore.exceptions import ClientError, ConnectTimeoutError

    refused = ClientError({"Error": {"Code": ICE[0], "Message": ICE[1]}}, "RunInstances")
    assert (aws.error_code(refused), aws.error_message(refused)) == ICE
    assert aws.error_code(ConnectTimeoutError(endpoint_url="http://x")) == "ConnectTimeoutError"
