"""One launch: other types, quotas, throttling, EC2's own errors and full reservations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gpucluster_node import aws, ec2, fleet
from gpucluster_node.power import groups, launch, resume
from stubbed_aws import (
    CLUSTER,
    FULL,
    GROUP,
    ICE,
    QUOTA,
    SINGLES,
    TYPES,
    UNAVAILABLE,
    Stubs,
    expect_describe,
    instance,
    run_instances,
)


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
    for template in ("lt-1", "lt-2"):
        count = 4 if template == "lt-1" else 2
        stubs("ec2").add_client_error("run_instances", *QUOTA, expected_params=run_instances(template, "1", count, 1))
        if template == "lt-1":
            two = {"Instances": [instance(1), instance(2)]}
            stubs("ec2").add_response("run_instances", two, run_instances("lt-1", "1", 2, least=1))
            stubs("ec2").add_client_error("run_instances", *QUOTA, expected_params=run_instances("lt-1", "1", 2, 1))
        stubs("ec2").add_client_error("run_instances", *QUOTA, expected_params=run_instances(template, "1", 1, 1))
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
        stubs("ec2").add_client_error("run_instances", *UNAVAILABLE, http_status_code=503)
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
    for _ in TYPES:
        stubs("ec2").add_client_error("run_instances", *FULL)
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


def test_error_code_is_ec2s_code_or_the_exceptions_name() -> None:
    from botocore.exceptions import ConnectTimeoutError

    refused = ClientError({"Error": {"Code": ICE[0], "Message": ICE[1]}}, "RunInstances")
    assert (aws.error_code(refused), aws.error_message(refused)) == ICE
    assert aws.error_code(ConnectTimeoutError(endpoint_url="http://x")) == "ConnectTimeoutError"
