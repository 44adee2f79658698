"""The effects that `head replace` announces, and what it refuses without --yes."""

from __future__ import annotations

import pytest

from gpucluster import config
from gpucluster.cli import head
from gpucluster.errors import UsageError

CLUSTER = """
name: c
region: us-east-1
partitions: [{name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}]
"""
RAM = "storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150, scope: %s}]\n"


def test_files_in_the_nodes_memory_are_lost_only_if_you_say_so() -> None:
    cluster = config.loads(CLUSTER + RAM % "cluster")
    with pytest.raises(UsageError, match="/ram is BeeGFS in the nodes' memory: its files would be lost") as refused:
        head.refuse_loss(cluster, yes=False)
    assert "--yes" in str(refused.value.hint) and "nothing was changed" in refused.value.message
    head.refuse_loss(cluster, yes=True)
    assert head.what_happens(cluster).startswith("the files of /ram are lost, the compute nodes are terminated")


@pytest.mark.parametrize("storage", ["", RAM % "job"])
def test_otherwise_nodes_and_jobs_continue(storage: str) -> None:
    cluster = config.loads(CLUSTER + storage)
    head.refuse_loss(cluster, yes=False)
    assert head.what_happens(cluster).endswith("compute nodes and running jobs continue")
