"""Eight faults of CloudFormation templates, of which cfn-lint and the CDK's validation find only two.

Here they are written in cluster.yaml: each is refused before synthesis, offline, at its line, with a caret.
"""

from __future__ import annotations

import pytest

from gpucluster.config import loads
from gpucluster.errors import ConfigError

CLUSTER = """\
name: GpuCluster
region: us-east-1
partitions:
  - name: train
    instance_types: [p4d.24xlarge]
    placement_group: cluster
    efa: auto
    max_nodes: 8
storage:
  - mount: /fsx
    type: fsx-lustre
    deployment: persistent-2
    capacity_gib: 4800
    throughput_mbps_per_tib: 250
"""

# The fault in the template -> its line in cluster.yaml, with a caret, and the validator.
FAULTS = [
    (
        "eight EFA interfaces on p4d.24xlarge, which has four",
        ("    efa: auto", "    efa: 8"),
        """\
cluster.yaml:7:10: error: partitions[0].efa: must be auto, required or off, got 8 [efa-mode]
      efa: 8
           ^""",
    ),
    (
        "EFA on m5.large",
        ("[p4d.24xlarge]\n    placement_group: cluster\n    efa: auto", "[m5.large]\n    efa: required"),
        """\
cluster.yaml:6:10: error: partitions[0].efa: 'required' needs types with EFA interfaces, and m5.large has none \
[efa-required-needs-efa-types]
      efa: required
           ^""",
    ),
    (
        "InterfaceType eaf",
        ("    efa: auto", "    efa: eaf"),
        """\
cluster.yaml:7:10: error: partitions[0].efa: must be auto, required or off, got 'eaf' [efa-mode]
      efa: eaf
           ^""",
    ),
    (
        "FSx PerUnitStorageThroughput 300",
        ("throughput_mbps_per_tib: 250", "throughput_mbps_per_tib: 300"),
        """\
cluster.yaml:14:30: error: storage[0].throughput_mbps_per_tib: must be 125, 250, 500 or 1000 for persistent-2, got 300 \
[fsx-throughput-tier]
      throughput_mbps_per_tib: 300
                               ^""",
    ),
    (
        "FSx StorageCapacity 1300",
        ("capacity_gib: 4800", "capacity_gib: 1300"),
        """\
cluster.yaml:13:19: error: storage[0].capacity_gib: must be 1200, 2400 or a multiple of 2400 for persistent-2, \
got 1300 [fsx-capacity-step]
      capacity_gib: 1300
                    ^""",
    ),
    (
        "FSx DeploymentType PERSISTENT_3",
        ("deployment: persistent-2", "deployment: persistent-3"),
        """\
cluster.yaml:12:17: error: storage[0].deployment: must be scratch-1, scratch-2, persistent-1 or persistent-2, \
got 'persistent-3' [fsx-deployment-type]
      deployment: persistent-3
                  ^""",
    ),
    (
        "placement group strategy",
        ("placement_group: cluster", "placement_group: clustre"),
        """\
cluster.yaml:6:22: error: partitions[0].placement_group: 'clustre' would be taken for the name of a group that exists \
[placement-group-not-misspelt]
      placement_group: clustre
                       ^""",
    ),
    (
        "unknown instance type",
        ("p4d.24xlarge", "p4d.25xlarge"),
        """\
cluster.yaml:5:22: error: partitions[0].instance_types[0]: 'p4d.25xlarge' is not a known instance type \
[instance-type-known]
      instance_types: [p4d.25xlarge]
                       ^""",
    ),
]


def test_the_cluster_without_a_fault_is_sound() -> None:
    assert loads(CLUSTER).warnings() == []


@pytest.mark.parametrize(("change", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_each_fault_is_refused_before_synthesis(change: tuple[str, str], message: str) -> None:
    assert change[0] in CLUSTER
    with pytest.raises(ConfigError) as caught:
        loads(CLUSTER.replace(*change))
    (problem,) = caught.value.problems
    assert problem.render().partition("\n  hint: ")[0] == message
