"""Instances get their names in EC2's console, a few in each round of reconcile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError
from gpucluster_node import ec2, fleet
from gpucluster_node.power import labels

CLUSTER = fleet.Fleet("GpuCluster", "c.internal", "/gpucluster/c/", ())


class Ec2:
    """DescribeInstances shows a tag only when `shows` is set."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = {f"i-{number}": node for number, node in enumerate(nodes)}
        self.tags: dict[str, str] = {}
        self.own: dict[str, str] = {}
        self.calls = 0
        self.shows = self.refuses = False

    def create_tags(self, Resources: list[str], Tags: list[dict[str, str]]) -> None:
        self.calls += 1
        if self.refuses:
            raise ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": "x"}}, "CreateTags")
        (id_,), tags = Resources, {tag["Key"]: tag["Value"] for tag in Tags}
        self.tags[id_], self.own[id_] = tags.pop("Name"), tags.pop("gpucluster:node")
        assert not tags

    def instances(self) -> list[ec2.Instance]:
        return [ec2._instance(self._shown(id_, node)) for id_, node in self.nodes.items()]

    def _shown(self, id_: str, node: str) -> dict[str, Any]:
        tags = {"gpucluster:node": node, "Name": self.tags.get(id_, "") if self.shows else ""}
        shown = [{"Key": key, "Value": value} for key, value in tags.items() if value]
        launched = datetime(2026, 11, 23, tzinfo=UTC)
        return {"InstanceId": id_, "State": {"Name": "running"}, "LaunchTime": launched, "Tags": shown}


def test_a_round_labels_a_few_and_none_twice() -> None:
    """A label may be shown some seconds after it was set."""
    there = Ec2([f"train-{number}" for number in range(1, 13)])
    found = labels.Labels(lambda: there)
    for expected in (5, 10, 12, 12):
        found.look(CLUSTER, there.instances())
        assert there.calls == expected
    assert there.tags["i-6"] == "GpuCluster-train-7"
    there.shows = True
    labels.Labels(lambda: there).look(CLUSTER, there.instances())
    assert there.calls == 12, "another reconcile, which reads them"


def test_the_name_of_its_node_becomes_its_own() -> None:
    """A release from before the shared values would take `0:train-[1-2]` for an unknown node, and end its instance."""
    there = Ec2(["0:train-[1-2]", "train-9"])
    labels.Labels(lambda: there).look(CLUSTER, there.instances())
    assert there.own == {"i-0": "train-1", "i-1": "train-9"}


def test_an_instance_without_a_node_has_no_label() -> None:
    there = Ec2(["", "train-2"])
    labels.Labels(lambda: there).look(CLUSTER, there.instances())
    assert there.tags == {"i-1": "GpuCluster-train-2"}


def test_after_a_refusal_it_pauses() -> None:
    """The launches' own tags come first."""
    there, now = Ec2(["train-1", "train-2"]), [0.0]
    there.refuses = True
    found = labels.Labels(lambda: there, lambda: now[0])
    found.look(CLUSTER, there.instances())
    now[0] = 59.0
    found.look(CLUSTER, there.instances())
    assert there.calls == 1
    there.refuses, now[0] = False, 60.0
    found.look(CLUSTER, there.instances())
    assert len(there.tags) == 2
