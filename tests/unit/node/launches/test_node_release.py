"""Suspend and release: which instances and records they end. DNS changes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from gpucluster_node import dns, ec2
from gpucluster_node.head import release
from gpucluster_node.power import last_launches, suspend
from stubbed_aws import (
    CLUSTER,
    LAUNCHED,
    Stubs,
    expect_describe,
    expect_listing,
    expect_records,
    instance,
    parameter,
    record,
)


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
    assert last_launches.read(["train-1"]) == {"train-1": last_launches.Launch(suspended=True)}


def test_suspend_records_its_end_with_the_instance_of_the_launch(stubs: Stubs) -> None:
    """Nothing of train-2, whose instance is not recorded: nobody could tell when it is over."""
    last_launches.write({"train-1": ec2._instance(instance(1))})
    expect_describe(stubs, instance(1, **{"gpucluster:node": "train-1"}), instance(2, **{"gpucluster:node": "train-2"}))
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-1", "i-2"]})
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    expect_listing(stubs)
    suspend.suspend(CLUSTER, ["train-1", "train-2"], LAUNCHED)
    ended = last_launches.Launch("i-1", "10.0.0.1", suspended=True)
    assert last_launches.read(["train-1", "train-2"]) == {"train-1": ended}


def test_a_late_suspend_does_not_record_the_end_of_the_next_launch(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_launches.write({"train-1": ec2._instance(instance(1))})
    expect_describe(stubs)
    parameter(stubs, "network", {"hosted_zone_id": "Z1"})
    monkeypatch.setattr(dns, "remove", lambda *given: last_launches.write({"train-1": ec2._instance(instance(2))}))
    suspend.suspend(CLUSTER, ["train-1"], LAUNCHED)
    assert last_launches.read(["train-1"]) == {"train-1": last_launches.Launch("i-2", "10.0.0.2")}


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
