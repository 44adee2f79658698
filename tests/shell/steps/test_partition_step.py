"""A partition's settings, as the bundle has them and as its nodes' steps read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_steps import Machine

from gpucluster import config, render

CLUSTER = """
name: Demo
region: us-east-1
partitions:
  - {name: train, instance_types: [c5n.18xlarge], max_nodes: 12}
  - {name: train-big, instance_types: [c5n.18xlarge], max_nodes: 2, efa: off, scratch: off}
parameter_servers: {}
storage: [{mount: /ram, type: beegfs-ram, partition: train-big, gib_per_node: 8, scope: job}]
"""


@pytest.mark.parametrize(
    ("role", "node", "settings"),
    [
        ("compute", "train-11", "yes yes none"),
        ("compute", "train-big-2", "no no job"),
        ("compute", "ps-1", "no yes none"),
        ("image", "ip-10-0-0-1", "of its role's script"),
    ],
)
def test_a_node_gets_its_partitions_settings(tmp_path: Path, role: str, node: str, settings: str) -> None:
    done = read_settings(Machine(tmp_path), role, node)
    assert (done.returncode, done.stdout.strip()) == (0, settings), done.stderr


def test_a_node_of_a_deleted_partition_reports_it(tmp_path: Path) -> None:
    done = read_settings(Machine(tmp_path), "compute", "gone-1")
    assert done.returncode == 1
    assert "the cluster file has no partition gone" in done.stdout


def read_settings(machine: Machine, role: str, node: str) -> subprocess.CompletedProcess[str]:
    machine.command("hostname", f"echo {node}")
    for path, text in render.bundle(config.loads(CLUSTER)).items():
        if path.startswith("partitions/"):
            file = machine.root / "bundle" / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    header = f'ROLE={role} EFA=of SCRATCH=its BEEGFS_ROLE="role\'s script"'
    return machine.run(
        f'{header}\nfail() {{ echo "$1"; exit 1; }}\nthis_partition\necho "$EFA $SCRATCH $BEEGFS_ROLE"',
        "this_partition",
    )
