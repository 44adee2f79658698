"""The layout: the cluster with all defaults and derived values."""

from __future__ import annotations

import pytest

from gpucluster.config import loads
from gpucluster.errors import ConfigError, UsageError
from gpucluster.layout import Group, Layout, expand

HEAD = "name: Demo\nregion: us-east-1\npartitions:\n"
TRAIN = "  - {name: train, instance_types: [p4d.24xlarge, p4de.24xlarge], max_nodes: 4}\n"
SERVERS = "parameter_servers: {max_nodes: 3}\n"


def layout(*parts: str) -> Layout:
    return expand(loads(HEAD + "".join(parts)))


def test_instance_types_come_in_order_of_preference() -> None:
    train = layout(TRAIN).partition("train")
    assert [kind.name for kind in train.types] == ["p4d.24xlarge", "p4de.24xlarge"]
    assert train.gpus_per_node == 8


def test_parameter_servers_are_a_partition_like_the_others_and_the_last() -> None:
    found = layout(TRAIN, SERVERS)
    assert found.sizes == {"train": 4, "ps": 3}
    servers = found.partition("ps")
    assert found.servers is servers and layout(TRAIN).servers is None
    assert [kind.name for kind in servers.types] == ["m4.16xlarge"]
    assert (servers.gpus_per_node, servers.efa, servers.scratch, servers.purchase) == (0, False, True, "on-demand")
    assert (servers.idle_s, servers.image) == (600, "dlami-ubuntu-24.04")


@pytest.mark.parametrize("name", ["tarin", "ps"])
def test_an_unknown_partition_names_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        layout(TRAIN).partition(name)
    assert caught.value.hint == "its partitions: train"


def test_a_partition_says_what_it_is_without_asking_the_file_again() -> None:
    own = "  - {name: own, instance_types: [c5n.18xlarge], max_nodes: 1, efa: off, scratch: off, idle_minutes: 0.5,"
    found = layout(own + " image: ami-0123456789abcdef0}\n").partition("own")
    assert (found.efa, found.scratch, found.idle_s, found.image) == (False, False, 30, "ami-0123456789abcdef0")


GROUP = "  - {{name: {name}, instance_types: [c5n.18xlarge], max_nodes: 2, {more}}}\n"
RESERVED = "purchase: reservation, reservation_id: cr-0123456789abcdef0"


@pytest.mark.parametrize(
    ("more", "group"),
    [
        ("placement_group: cluster", Group("a", ours=True)),
        ("placement_group: none", None),
        ("placement_group: theirs", Group("theirs", ours=False)),
        ("purchase: spot", Group("a", ours=True)),
        (f"{RESERVED}, placement_group: theirs", Group("theirs", ours=False)),
        (f"{RESERVED}, placement_group: none", None),
    ],
)
def test_a_placement_group_is_where_the_purchase_allows_one(more: str, group: Group | None) -> None:
    assert layout(GROUP.format(name="a", more=more)).partition("a").group == group


@pytest.mark.parametrize(
    ("first", "servers", "group"),
    [
        ("placement_group: cluster", "", Group("a", ours=True)),
        ("placement_group: none", "", Group("b", ours=True)),
        ("placement_group: cluster", "placement_group: none", None),
        ("placement_group: cluster", "placement_group: theirs", Group("theirs", ours=False)),
    ],
)
def test_parameter_servers_share_the_first_group_that_the_stack_makes(
    first: str, servers: str, group: Group | None
) -> None:
    a, b = GROUP.format(name="a", more=first), GROUP.format(name="b", more="placement_group: cluster")
    assert layout(a, b, f"parameter_servers: {{{servers}}}\n").partition("ps").group == group


def test_a_group_of_the_users_may_be_called_shared() -> None:
    found = layout(GROUP.format(name="a", more="placement_group: shared"), SERVERS)
    assert [each.group for each in found.partitions] == [Group("shared", ours=False), None]


def test_home_is_a_mount_be_it_in_the_file_or_not() -> None:
    fsx, efs = "{mount: /fsx, type: fsx-lustre}", "{mount: /home, type: efs}"
    kinds = [(each.mount, each.type) for each in layout(TRAIN, f"storage: [{fsx}]\n").mounts]
    assert kinds == [("/home", "head-nfs"), ("/fsx", "fsx-lustre")]
    found = layout(TRAIN, f"storage: [{fsx}, {efs}]\n")
    assert [each.type for each in found.mounts] == ["fsx-lustre", "efs"]


def test_the_memory_of_a_file_system_is_its_partitions() -> None:
    ram = "storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 64, scope: job}]\n"
    found = layout(TRAIN, SERVERS, ram)
    assert [each.ram_gib for each in found.partitions] == [66, 0]  # metadata: a thirty-second part


def test_wrong_keys_of_parameter_servers_are_wrong_in_their_partition() -> None:
    """Otherwise a check across keys would compare a default that is not in the file."""
    text = HEAD + TRAIN + "parameter_servers: {min_nodes: -1, max_nodes: 70000, instance_type: m5.nothing}\n"
    with pytest.raises(ConfigError) as caught:
        loads(text)
    said = {notice.key for notice in caught.value.problems}
    assert said >= {"parameter_servers.min_nodes", "parameter_servers.instance_type", "partitions"}
