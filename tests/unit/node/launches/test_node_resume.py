"""Resume, as Slurm calls it: each call of AWS and Slurm with its parameters, none left over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpucluster_node import dns, ec2, slurm
from gpucluster_node.power import failing, groups, resume
from stubbed_aws import (
    CLUSTER,
    DENIED,
    GROUP,
    OTHER_ZONE,
    SINGLES,
    TYPES,
    Stubs,
    expect_names,
    expect_records,
    instance,
    parameter,
    refusing_parameters,
    resumed,
    run_instances,
)


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
    reasons: list[str] = []

    def sleep(seconds: float) -> None:
        reasons.extend(waiting["waits"]["train-2"] for waiting in map(json.loads, _texts(tmp_path)))
        if len(reasons) == 2:
            paused.clear()

    resumed(GROUP, tmp_path, sleep)
    assert reasons == [f"{PAUSED}; {PAUSED}"] * 2


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


def test_a_refused_launch_sets_the_nodes_down_with_ec2s_code(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, counted: list[tuple[str, str]]
) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *OTHER_ZONE, http_status_code=400)
    resumed(GROUP, tmp_path)
    reason = f"reason=Unsupported: {OTHER_ZONE[1]} (p4d.24xlarge); next try in 120 s"
    assert scontrol == [["scontrol", "update", "nodename=train-1,train-2", "state=down", reason]]
    assert counted == [("train", "Unsupported")]


def test_a_refused_permission_is_a_reason_that_can_be_read(
    stubs: Stubs, scontrol: list[list[str]], tmp_path: Path, counted: list[tuple[str, str]]
) -> None:
    refusing_parameters(stubs)
    stubs("ec2").add_client_error("run_instances", *DENIED, http_status_code=403)
    resumed(GROUP, tmp_path)
    assert scontrol[0][-1] == (
        "reason=UnauthorizedOperation: You are not authorized to perform this operation. (p4d.24xlarge); "
        "next try in 120 s"
    )


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
