"""The tag that names an instance's node, and instances that cannot get it."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import ec2, names
from gpucluster_node.power import groups, resume
from stubbed_aws import (
    DENIED,
    GROUP,
    NOT_FOUND,
    TYPES,
    UNAVAILABLE,
    Stubs,
    expect_names,
    expect_records,
    instance,
    parameter,
    resumed,
)


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
        stubs("ec2").add_client_error("create_tags", *DENIED)
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


def test_an_instance_is_tagged_also_if_ec2_is_unavailable_for_a_while(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was terminated instead, EC2 might have no capacity for another one."""
    slept: list[float] = []
    monkeypatch.setattr(ec2.time, "sleep", slept.append)
    monkeypatch.setattr(ec2.time, "monotonic", lambda: sum(slept))
    for _ in range(5):
        stubs("ec2").add_client_error("create_tags", *UNAVAILABLE, http_status_code=503)
    expect_names(stubs, "train-1", 1)
    ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    assert 30 < sum(slept) < 65
    for _ in range(40):
        stubs("ec2").add_client_error("create_tags", *UNAVAILABLE, http_status_code=503)
    with pytest.raises(ClientError, match="Unavailable"):
        ec2.tag(resume.client("ec2"), ec2.tag_request(["i-1"], {names.TAG: "train-1"}))
    stubs("ec2")._queue.clear()


def assigned(stubs: Stubs) -> None:
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
    stubs("ec2").add_client_error("terminate_instances", *DENIED)
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
    said = "The instance ID 'i-0a' does not exist"
    stubs("ec2").add_client_error("terminate_instances", NOT_FOUND, said)
    stubs("ec2").add_response("terminate_instances", {}, {"InstanceIds": ["i-0b", "i-0c"]})
    ec2.terminate(resume.client("ec2"), ["i-0b", "i-0a", "i-0c"])
