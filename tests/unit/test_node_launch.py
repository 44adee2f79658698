"""Resume, suspend and release against botocore's Stubber: each call with its parameters, none left over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from gpucluster_node import aws, dns, ec2, fleet, release, resume, slurm, suspend, update

CLUSTER = fleet.parse(
    {
        "cluster": "c",
        "region": "us-east-1",
        "zone": "c.internal",
        "ssm_path": "/gpucluster/c/",
        "partitions": [
            {
                "name": name,
                "min_nodes": 0,
                "max_nodes": 4,
                "instance_types": ["p4d.24xlarge", "p4de.24xlarge"],
                "purchase": "on-demand",
                "gpus_per_node": 8,
                "idle_minutes": 10,
                "role": "compute",
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

    def client(service: str) -> Any:
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


@pytest.fixture
def scontrol(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The argument lists that would have been run."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "_run", lambda argv: calls.append(list(argv)) or "")
    return calls


def parameter(stubs: Stubs, name: str, value: Any) -> None:
    answer = {"Parameter": {"Value": json.dumps(value)}}
    stubs("ssm").add_response("get_parameter", answer, {"Name": f"/gpucluster/c/{name}"})


def run_instances(template: str, version: str, count: int) -> dict[str, Any]:
    launch_template = {"LaunchTemplateId": template, "Version": version}
    return {"LaunchTemplate": launch_template, "MinCount": count, "MaxCount": count, "ClientToken": ANY}


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


def test_resume_launches_tags_names_and_tells_slurm(stubs: Stubs, scontrol: list[list[str]]) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    launched = {"Instances": [instance(2), instance(1)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-1", "3", 2))
    expect_tags(stubs, 1, "train-1")
    expect_tags(stubs, 2, "train-2")
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_records(stubs, "UPSERT", {"train-1.c.internal": "10.0.0.1", "train-2.c.internal": "10.0.0.2"})
    resume.resume(CLUSTER, GROUP, "1")
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "nodeaddr=10.0.0.1,10.0.0.2"]]


NOT_FOUND = "InvalidInstanceID.NotFound"


def test_an_instance_that_ec2_does_not_know_yet_is_tagged_later(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2.time, "sleep", lambda seconds: None)
    for _ in range(2):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    expect_tags(stubs, 1, "train-1")
    ec2.tag(resume.client("ec2"), ec2.tag_request(CLUSTER, "i-1", "train-1"))


def test_tagging_gives_up_in_the_end(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    for _ in range(ec2.TAG_ATTEMPTS):
        stubs("ec2").add_client_error("create_tags", NOT_FOUND, "The instance ID 'i-1' does not exist")
    with pytest.raises(ClientError, match="NotFound"):
        ec2.tag(resume.client("ec2"), ec2.tag_request(CLUSTER, "i-1", "train-1"))
    assert 20 < sum(slept) < 30


def test_the_next_type_is_tried_where_one_has_no_capacity(stubs: Stubs) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_client_error("run_instances", *ICE, expected_params=run_instances("lt-1", "3", 2))
    launched = {"Instances": [instance(1), instance(2)]}
    stubs("ec2").add_response("run_instances", launched, run_instances("lt-2", "1", 2))
    assert [each.instance_id for each in resume.launch(CLUSTER, GROUP, "1")] == ["i-1", "i-2"]


def test_a_refused_launch_sets_the_nodes_down_with_ec2s_code(stubs: Stubs, scontrol: list[list[str]]) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES[:1], "subnet_id": "subnet-1"})
    stubs("ec2").add_client_error("run_instances", *ICE)
    with pytest.raises(resume.LaunchRefused) as refused:
        resume.launch(CLUSTER, GROUP, "1")
    resume.refuse(GROUP, refused.value)
    reason = "reason=InsufficientInstanceCapacity: no p4d left (p4d.24xlarge); next try in 120 s"
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]


def test_instances_that_cannot_be_named_are_ended(stubs: Stubs, scontrol: list[list[str]]) -> None:
    parameter(stubs, "partitions/train", {"instance_types": TYPES, "subnet_id": "subnet-1"})
    stubs("ec2").add_response("run_instances", {"Instances": [instance(1), instance(2)]})
    stubs("ec2").add_client_error("create_tags", "UnauthorizedOperation", "no")
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    with pytest.raises(Exception, match="UnauthorizedOperation"):
        resume.resume(CLUSTER, GROUP, "1")
    assert scontrol == []


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


def test_groups_keep_a_jobs_nodes_together() -> None:
    jobs = [
        {"job_id": 7, "nodes_resume": "train-[1-2]"},
        {"job_id": 8, "nodes_resume": "train-[2-3],ps-1"},
    ]
    wanted = slurm.expand("train-[1-4],ps-1,gone-1")
    assert resume.groups(CLUSTER, wanted, jobs) == [
        resume.Group("train", ("train-1", "train-2"), 7),
        resume.Group("train", ("train-3",), 8),
        resume.Group("ps", ("ps-1",), 8),
        resume.Group("train", ("train-4",), None),
    ]


def test_waiting_jobs_reads_slurms_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resume"
    file.write_text('{"all_nodes_resume": "train-1", "jobs": [{"job_id": 7, "nodes_resume": "train-1"}]}')
    monkeypatch.setenv("SLURM_RESUME_FILE", str(file))
    assert resume.waiting_jobs() == [{"job_id": 7, "nodes_resume": "train-1"}]
    monkeypatch.delenv("SLURM_RESUME_FILE")
    assert resume.waiting_jobs() == []


def expect_describe(stubs: Stubs, *instances: dict[str, Any], nodes: tuple[str, ...] = ()) -> None:
    filters = [
        {"Name": "tag:gpucluster:cluster", "Values": ["c"]},
        {"Name": "tag:gpucluster:role", "Values": ["compute"]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    if nodes:
        filters.append({"Name": "tag:gpucluster:node", "Values": list(nodes)})
    answer = {"Reservations": [{"Instances": [each]} for each in instances]}
    stubs("ec2").add_response("describe_instances", answer, {"Filters": filters})


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
    suspend.suspend(CLUSTER, ["train-1"])


def test_suspend_of_nodes_without_instances_ends_nothing(stubs: Stubs) -> None:
    expect_describe(stubs, nodes=("train-1",))
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1"])


def test_release_ends_everything_and_leaves_the_heads_record(stubs: Stubs) -> None:
    expect_describe(stubs, instance(1), instance(2))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs, record("head.c.internal.", "10.0.0.9"), record("ps-12.c.internal.", "10.0.0.2"))
    expect_records(stubs, "DELETE", {"ps-12.c.internal.": "10.0.0.2"})
    release.release(CLUSTER)


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
