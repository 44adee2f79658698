"""How nodes are bought, where they are placed, and what the head may use for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from test_stacks_roles import allowing, resources

Template = dict[str, Any]
RESERVATION = "cr-0123456789abcdef0"

CLUSTER = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1a
partitions:
  - {{name: train, instance_types: [{type}], max_nodes: 4, purchase: {purchase}{more}}}
"""


def cluster(purchase: str, *, type_: str = "p5.48xlarge", reservation: str | None = None, more: str = "") -> str:
    target = f", reservation_id: {reservation}, placement_group: none" if reservation else ""
    return CLUSTER.format(type=type_, purchase=purchase, more=target) + more


ON_DEMAND = cluster("on-demand")
SPOT = cluster("spot", type_="g5.12xlarge")
RESERVED = cluster("reservation", type_="p4d.24xlarge", reservation=RESERVATION)
RESERVED_IN_GROUP = RESERVED.replace("placement_group: none", "placement_group: mine")
BLOCK = cluster("capacity-block", reservation=RESERVATION)


def launch_data(template: Template, partition: str = "train") -> dict[str, Any]:
    for found in template["Resources"].values():
        data = found.get("Properties", {}).get("LaunchTemplateData")
        if data and {"Key": "gpucluster:partition", "Value": partition} in data["TagSpecifications"][0]["Tags"]:
            return dict(data)
    raise AssertionError(partition)


ONCE = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
TARGET = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}


@pytest.mark.parametrize(
    ("text", "market", "reservation"),
    [
        (ON_DEMAND, None, None),
        (SPOT, {"MarketType": "spot", "SpotOptions": ONCE}, None),
        (RESERVED, None, TARGET),
        (RESERVED_IN_GROUP, None, TARGET),
        (BLOCK, {"MarketType": "capacity-block"}, TARGET),
    ],
    ids=["on-demand", "spot", "reservation", "reservation in a group", "capacity-block"],
)
def test_how_nodes_are_bought(
    template_of: Callable[[str], Template], text: str, market: dict[str, Any] | None, reservation: dict[str, Any] | None
) -> None:
    data = launch_data(template_of(text))
    assert data.get("InstanceMarketOptions") == market
    assert data.get("CapacityReservationSpecification") == reservation
    assert data["InstanceInitiatedShutdownBehavior"] == "terminate"


def launch_template_shape(*members: str) -> Any:
    model = botocore.session.get_session().get_service_model("ec2")
    shape = model.operation_model("CreateLaunchTemplate").input_shape.members["LaunchTemplateData"]
    for member in members:
        shape = shape.members[member]
    return shape


def test_ec2_accepts_the_values(template_of: Callable[[str], Template]) -> None:
    market = launch_template_shape("InstanceMarketOptions")
    for text in (SPOT, BLOCK):
        options = launch_data(template_of(text))["InstanceMarketOptions"]
        assert options["MarketType"] in market.members["MarketType"].enum
        for key, value in options.get("SpotOptions", {}).items():
            assert value in market.members["SpotOptions"].members[key].enum
    target = launch_template_shape("CapacityReservationSpecification", "CapacityReservationTarget")
    assert TARGET["CapacityReservationTarget"].keys() <= target.members.keys()


@pytest.mark.parametrize("text", [RESERVED, BLOCK], ids=["reservation", "capacity-block"])
def test_a_reservation_places_its_instances_itself(template_of: Callable[[str], Template], text: str) -> None:
    template = template_of(text)
    assert "Placement" not in launch_data(template)
    assert "AWS::EC2::PlacementGroup" not in {found["Type"] for found in template["Resources"].values()}


def test_a_reservation_of_a_placement_group_is_launched_into_with_it(template_of: Callable[[str], Template]) -> None:
    template = template_of(RESERVED_IN_GROUP)
    assert launch_data(template)["Placement"] == {"GroupName": "mine"}
    assert "AWS::EC2::PlacementGroup" not in {found["Type"] for found in template["Resources"].values()}
    used = [each for statement in allowing(template, "HeadRole", "ec2:RunInstances") for each in resources(statement)]
    assert "placement-group/mine" in [each.rpartition(":")[2] for each in used]


@pytest.mark.parametrize(
    "text",
    [
        RESERVED.replace("placement_group: none", "placement_group: cluster"),
        BLOCK.replace("placement_group: none", "placement_group: mine"),
    ],
    ids=["reservation", "capacity-block"],
)
def test_a_group_that_cannot_hold_what_was_reserved_is_left_out(
    template_of: Callable[[str], Template], text: str
) -> None:
    template = template_of(text + "silence: [reservation-without-placement-group]\n")
    assert "Placement" not in launch_data(template)
    assert "AWS::EC2::PlacementGroup" not in {found["Type"] for found in template["Resources"].values()}


@pytest.mark.parametrize("text", [RESERVED, BLOCK], ids=["reservation", "capacity-block"])
def test_the_head_may_use_the_reservation(template_of: Callable[[str], Template], text: str) -> None:
    """The ARN in whatever account: one may be shared."""
    used = [
        each
        for statement in allowing(template_of(text), "HeadRole", "ec2:RunInstances")
        for each in resources(statement)
    ]
    assert [each.partition(":ec2:")[2] for each in used if "capacity-reservation" in each] == [
        f"us-east-1:*:capacity-reservation/{RESERVATION}"
    ]


def test_without_a_reservation_none_may_be_used(template_of: Callable[[str], Template]) -> None:
    for statement in allowing(template_of(SPOT), "HeadRole", "ec2:RunInstances"):
        assert "capacity-reservation" not in str(resources(statement))


def test_the_first_spot_launch_of_an_account_makes_its_role(template_of: Callable[[str], Template]) -> None:
    (statement,) = allowing(template_of(SPOT), "HeadRole", "iam:CreateServiceLinkedRole")
    assert statement["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}
    (role,) = resources(statement)
    assert role.endswith(":iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")
    assert not allowing(template_of(ON_DEMAND), "HeadRole", "iam:CreateServiceLinkedRole")


SERVERS = "parameter_servers: {{instance_type: m5.24xlarge, max_nodes: 16{}}}\n"


def placement(template: Template, partition: str) -> Any:
    return launch_data(template, partition).get("Placement", {}).get("GroupName")


def test_parameter_servers_are_beside_the_gpus(template_of: Callable[[str], Template]) -> None:
    template = template_of(cluster("spot", type_="g5.12xlarge", more=SERVERS.format("")))
    groups = [key for key, found in template["Resources"].items() if found["Type"] == "AWS::EC2::PlacementGroup"]
    assert len(groups) == 1
    assert placement(template, "train") == placement(template, "ps") == {"Ref": groups[0]}
    servers = launch_data(template, "ps")
    assert servers["InstanceType"] == "m5.24xlarge" and "InstanceMarketOptions" not in servers
    assert [each["InterfaceType"] for each in servers["NetworkInterfaces"]] == ["interface"]


def test_the_shared_group_is_of_the_first_partition_that_made_one(template_of: Callable[[str], Template]) -> None:
    second = "  - {name: second, instance_types: [p4d.24xlarge], max_nodes: 4}\n"
    third = "  - {name: third, instance_types: [p4d.24xlarge], max_nodes: 4}\n"
    text = cluster("capacity-block", reservation=RESERVATION, more=second + third + SERVERS.format(""))
    template = template_of(text)
    assert placement(template, "ps") == placement(template, "second") != placement(template, "third")
    assert placement(template, "train") is None


@pytest.mark.parametrize(
    ("wish", "group"), [("", None), (", placement_group: none", None), (", placement_group: mine", "mine")]
)
def test_parameter_servers_elsewhere(template_of: Callable[[str], Template], wish: str, group: str | None) -> None:
    template = template_of(cluster("capacity-block", reservation=RESERVATION, more=SERVERS.format(wish)))
    assert placement(template, "ps") == group


def test_a_group_made_elsewhere_is_allowed_by_its_name(template_of: Callable[[str], Template]) -> None:
    template = template_of(cluster("on-demand", more=SERVERS.format(", placement_group: mine")))
    used = [each for statement in allowing(template, "HeadRole", "ec2:RunInstances") for each in resources(statement)]
    assert [each.rpartition(":")[2] for each in used if "placement-group" in each] == [
        "placement-group/*",
        "placement-group/mine",
    ]


MAX_INLINE_CHARACTERS, MAX_MANAGED_CHARACTERS, MAX_MANAGED_POLICIES = 10_240, 6_144, 10
"""Characters of a role's inline policies together, of one managed policy, and of such on one role (IAM's quotas)."""


def documents(template: Template, kind: str) -> list[int]:
    """The characters of each policy of the head's role, without blanks, as IAM counts them."""
    found = [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]
    heads = [each for each in found if each["Roles"][0]["Ref"].startswith("HeadRole")]
    return [len(json.dumps(resolved(each["PolicyDocument"]), separators=(",", ":"))) for each in heads]


def resolved(value: Any) -> Any:
    if isinstance(value, list):
        return [resolved(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value == {"Ref": "AWS::Partition"}:
        return "aws-us-gov"
    if "Fn::Join" in value:
        return "".join(str(resolved(each)) for each in value["Fn::Join"][1])
    if value.keys() & {"Ref", "Fn::GetAtt"}:
        return "x" * 100
    return {key: resolved(each) for key, each in value.items()}


def fifty(more: str) -> str:
    head = f"name: {'x' * 40}\nregion: ap-southeast-1\navailability_zone: ap-southeast-1a\n"
    row = "  - {{name: part-{n}x, instance_types: [p5.48xlarge], max_nodes: 100{more}}}\n"
    return head + "partitions:\n" + "".join(row.format(n=n, more=more.format(n=n)) for n in range(10, 60))


RESERVATIONS = ", purchase: reservation, reservation_id: cr-0123456789abcde{n}, placement_group: none"


@pytest.mark.parametrize(
    ("more", "managed"),
    [
        ("", 0),
        (", placement_group: a-placement-group-of-theirs-{n}", None),
        (", image: ami-0123456789abcde{n}", None),
        (RESERVATIONS + ", image: ami-0123456789abcde{n}", None),
    ],
    ids=["ours", "named groups", "images", "reservations and images"],
)
def test_fifty_partitions_fit_into_the_heads_role(
    template_of: Callable[[str], Template], more: str, managed: int | None
) -> None:
    """`managed`: how many managed policies it takes; what grows with the partitions is scoped by tag where it can."""
    template = template_of(fifty(more))
    inline = documents(template, "AWS::IAM::Policy")
    assert inline and sum(inline) <= MAX_INLINE_CHARACTERS, inline
    overflow = documents(template, "AWS::IAM::ManagedPolicy")
    assert len(overflow) <= MAX_MANAGED_POLICIES
    assert all(size <= MAX_MANAGED_CHARACTERS for size in overflow), overflow
    assert managed is None or len(overflow) == managed
