"""How `up` reports changes, and when it stops. The cluster tier tests its effects on a head node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gpucluster import config, updates
from gpucluster.cli import changes
from gpucluster.cli.changes import Comparison
from gpucluster.cluster.deployment import Clients
from gpucluster.cluster.deployment import Deployment as RealDeployment
from gpucluster.errors import UsageError
from gpucluster.head.remote import Completed
from gpucluster.updates import LiveNode

CLUSTER = """
name: c
region: us-east-1
availability_zone: us-east-1a
head_node: {instance_type: m6i.large, volume_gib: 100}
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
"""


@dataclass
class Deployment:
    """AWS's answers about a cluster."""

    record: dict[str, Any] | None
    nodes: Sequence[LiveNode] = ()
    head: str = "running"
    messages: list[str] = field(default_factory=list)
    lustre: set[str] | None = None
    """None: the test fails if something asks for them."""
    config_file: Path = Path("cluster.yaml")
    awaited: str = ""

    def last_change(self) -> tuple[str, str] | None:
        return ("arn", "2026-11-28") if self.record else None

    def replacements(self) -> Mock:
        return Mock(**{"awaited.return_value": self.awaited})

    def file_systems(self) -> set[str]:
        assert self.lustre is not None
        return self.lustre

    def deployed(self) -> updates.Deployed | None:
        return None if self.record is None else updates.read(self.record)

    def live_nodes(self) -> list[LiveNode]:
        return list(self.nodes)

    def lost_heads(self) -> list[str]:
        return ["i-0head"] if self.head == "terminated" else []

    def instances(self, role: str) -> list[dict[str, Any]]:
        return [{"State": {"Name": self.head}}] if role == "head" else []


class Connection:
    """A head node that has these jobs."""

    def __init__(self, *jobs: str) -> None:
        self.jobs = jobs

    def __call__(self) -> Connection:
        return self

    def run(self, argv: Sequence[str]) -> Completed:
        if argv[0] == "scontrol":
            return Completed(0, "Slurmctld(primary) at head is UP\n", "")
        return Completed(0, "".join(f"{job}|RUNNING|train|1|train-1|0:10|1:00|x|x|x|None\n" for job in self.jobs), "")

    def renew(self) -> None:
        pass


def deployed(nodes: Sequence[LiveNode] = (), *, head: str = "running") -> Deployment:
    return Deployment(updates.metadata(config.loads(CLUSTER), availability_zone="us-east-1a"), nodes, head)


def compared(deployment: Deployment, old: str = "", new: str = "") -> Comparison:
    wanted = config.loads(CLUSTER.replace(old, new, 1) if old else CLUSTER)
    return changes.compare(deployment, wanted, deployment.messages.append)  # type: ignore[arg-type]


def test_a_terminated_head_node_is_reported_without_a_change_of_the_file() -> None:
    said = "  head replaced  i-0head was terminated: `up` creates another one with the same volume"
    assert list(compared(deployed(head="terminated")).lines()) == ["changes: no changes", said]
    assert list(compared(deployed()).lines()) == ["changes: no changes"]


def test_a_requested_head_replacement_that_is_not_deployed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = deployed([("train", 1)])
    deployment.awaited = "gpucluster-head:c"
    comparison = compared(deployment)
    (_, line) = comparison.lines()
    assert line.startswith("  head replaced  gpucluster-head:c in cdk.context.json counts a replacement that is not")
    assert line.endswith("delete the entry to keep the head node")
    assert comparison.needs_care
    with pytest.raises(UsageError, match="while jobs run: 7"):
        make(comparison, deployment, ["7"], monkeypatch)


def test_no_node_is_drained_without_a_head_node(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = deployed([("train", 1)], head="terminated")
    comparison = compared(deployment, "g5.12xlarge", "g5.48xlarge")
    with pytest.raises(UsageError, match="without it no node can be drained") as refused:
        make(comparison, deployment, [], monkeypatch)
    assert "run `gpucluster up`, then make them again" in str(refused.value.hint)
    assert make(compared(deployment, "m6i.large", "m6i.xlarge"), deployment, [], monkeypatch), "nobody is to be asked"


def make(comparison: Comparison, deployment: Deployment, jobs: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the change was made, without --drain."""
    monkeypatch.setattr(changes, "_Connection", lambda *_: Connection(*jobs))
    made = False
    with changes.nodes_out_of_service(comparison, Path("x"), deployment, deployment.messages.append, drain=False):  # type: ignore[arg-type]
        made = True
    return made


def test_nothing_deployed_has_no_changes() -> None:
    comparison = compared(Deployment(None))
    assert list(comparison.lines()) == [] and not comparison.needs_care


def test_harmless_changes_are_listed_first() -> None:
    comparison = compared(deployed(), "max_nodes: 4", "max_nodes: 5, purchase: spot")
    first, *lines = comparison.lines()
    assert first == "changes: 1 in place, 1 for new nodes only, head node untouched"
    assert [line.split("  ")[1].strip() for line in lines] == ["in place", "new nodes"]


def test_a_refusal_says_why_and_what_to_do_instead() -> None:
    comparison = compared(deployed(), "volume_gib: 100", "volume_gib: 50")
    with pytest.raises(UsageError, match="head_node.volume_gib: cannot be changed: EBS") as refusal:
        changes.refuse_loss(comparison)
    assert refusal.value.exit_code == 2 and "keep the size" in str(refusal.value.hint)
    changes.refuse_loss(compared(deployed(), "volume_gib: 100", "volume_gib: 150"))


BURST = """storage:
  - {mount: /scratch/burst, type: fsx-lustre, lifetime: jobs, data_repositories: [{path: /a, s3: "s3://bucket/a"}]}
"""


@pytest.mark.parametrize(("there", "refused"), [({"c-scratch-burst"}, True), ({"d-scratch-burst", "c-fsx"}, False)])
@pytest.mark.parametrize(
    "new", ["", BURST.replace("lifetime: jobs, ", ""), "storage: [{mount: /scratch/burst, type: efs}]\n"]
)
def test_no_file_system_of_the_head_is_left_behind(new: str, there: set[str], refused: bool) -> None:
    record = updates.metadata(config.loads(CLUSTER + BURST), availability_zone="us-east-1a")
    deployment = Deployment(record, lustre=there)
    comparison = changes.compare(deployment, config.loads(CLUSTER + new), deployment.messages.append)  # type: ignore[arg-type]
    if not refused:
        assert not comparison.needs_care
        return changes.refuse_loss(comparison)
    with pytest.raises(UsageError, match="/scratch/burst has a file system now, and nothing would delete") as caught:
        changes.refuse_loss(comparison)
    assert "cancel the jobs that use /scratch/burst" in caught.value.hint


def test_the_clusters_file_systems_are_found_by_their_tags() -> None:
    def system(**tags: str) -> dict[str, Any]:
        return {"Tags": [{"Key": key.replace("_", ":"), "Value": value} for key, value in tags.items()]}

    pages = [{"FileSystems": [system(Name="c-burst", gpucluster_cluster="c")]}, {"FileSystems": [system(Name="c-fsx")]}]
    pages[1]["FileSystems"].append(system(Name="d-burst", gpucluster_cluster="d"))
    fsx = Mock()
    fsx.get_paginator("describe_file_systems").paginate.return_value = pages
    others = ("budgets", "cloudformation", "ec2", "iam", "rds", "route53", "ssm", "sts")
    clients = Clients(fsx=fsx, **dict.fromkeys(others))
    deployment = RealDeployment("c", "us-east-1", Path("x"), Path("x"), dict, clients, tell=lambda line: None)
    assert deployment.file_systems() == {"c-burst"}


HEAD = ("m6i.large", "m6i.xlarge")
FEWER = ("max_nodes: 4", "max_nodes: 2")


@pytest.mark.parametrize(
    ("change", "nodes", "jobs", "head", "refused"),
    [
        (FEWER, [("train", 3)], [], "running", "running nodes of train must be terminated first"),
        (FEWER, [("train", 2)], ["7"], "running", None),
        (HEAD, [("train", 1)], ["7"], "running", "the head node cannot be changed while jobs run: 7"),
        (HEAD, [("train", 1)], [], "running", None),
        (HEAD, [], ["7"], "running", None),
        (HEAD, [("train", 1)], ["7"], "stopped", None),
    ],
)
def test_up_without_drain(
    change: tuple[str, str],
    nodes: Sequence[LiveNode],
    jobs: Sequence[str],
    head: str,
    refused: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = deployed(nodes, head=head)
    comparison = compared(deployment, *change)
    if refused is None:
        assert make(comparison, deployment, jobs, monkeypatch)
        return
    with pytest.raises(UsageError, match=refused) as refusal:
        make(comparison, deployment, jobs, monkeypatch)
    assert "--drain" in str(refusal.value.hint)


def test_the_first_up_of_a_version_that_tells_slurm_the_cores_needs_idle_nodes() -> None:
    """The file is the same. Slurm would end the jobs of nodes whose cores change."""
    record = updates.metadata(config.loads(CLUSTER), availability_zone="us-east-1a")
    older = json.loads(record["GpuCluster"])
    del older["node_lines"]
    deployment = Deployment({"GpuCluster": json.dumps(older)}, [("train", 1)])
    found = compared(deployment)
    first, second = found.lines()
    assert first == "changes: 1 needs partition train drained, head node untouched"
    assert second.startswith(
        "  drain          partitions[train] in slurm.conf: CPUs=48 RealMemory=186777 Gres=gpu:a10g:4 -> "
    )
    with (
        pytest.raises(UsageError, match="running nodes of train must be terminated first; nothing was changed"),
        changes.nodes_out_of_service(found, Path("x"), deployment, deployment.messages.append, drain=False),  # type: ignore[arg-type]
    ):
        pytest.fail("the change was made")
    assert not compared(Deployment({"GpuCluster": json.dumps(older)})).needs_care


def test_changes_with_unknown_effect_need_an_idle_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment({}, [("train", 1)])
    comparison = compared(deployment)
    assert "the changes cannot be listed" in deployment.messages[0] and list(comparison.lines()) == []
    assert make(comparison, deployment, [], monkeypatch)
    with pytest.raises(UsageError, match="while jobs run: 7"):
        make(comparison, deployment, ["7"], monkeypatch)
