"""File systems and a volume that were in a VPC before the cluster: jobs on two nodes read and write each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from bed import Bed
from beds import opened

from tests.cluster.moved_in.there_before import FileSystems, Network, volume_with_a_file

MOUNTS = ("/lustre", "/efs", "/zfs", "/ontap", "/old")
STORAGE = """
storage:
  - {{mount: /lustre, type: fsx-lustre, file_system_id: {0.lustre}}}
  - {{mount: /efs, type: efs, file_system_id: {0.efs}}}
  - {{mount: /zfs, type: fsx-openzfs, volume_id: {0.openzfs}}}
  - {{mount: /ontap, type: fsx-ontap, volume_id: {0.ontap}}}
"""
DISK = "  - {mount: /old, type: ebs, volume_id: VOLUME}\n"


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with opened(replace(Bed.make(tmp_path_factory.mktemp("moved")), python="/home/plain")) as bed:
        network = Network(bed.client("ec2"))
        text = network.config(bed.config.read_text().rstrip()) + STORAGE.format(FileSystems(bed, network))
        bed.config.write_text(text)
        bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        # Nobody but their owner opens them to all users: the cluster changes no mode of theirs.
        bed.ssh("sudo", "chmod", "1777", "/lustre", "/efs")
        bed.config.write_text(text + DISK.replace("VOLUME", volume_with_a_file(bed)))
        bed.up()
        yield bed


def test_jobs_on_two_nodes_read_and_write_each(moved: Bed) -> None:
    moved.ssh("bash", "-ec", "; ".join(f"echo head >{mount}/head" for mount in MOUNTS))
    reads = "; ".join(f"cat {mount}/head; hostname >{mount}/$(hostname)" for mount in MOUNTS)
    done = moved.submit("--nodes", "2", "--launcher", "srun", "--follow", "--", "bash", "-ec", reads)
    assert done.exit_code == 0, done.log
    nodes = done.result["node_list"]
    assert len(nodes) == 2
    for mount in MOUNTS:
        written = moved.ssh("bash", "-ec", f"cat {mount}/{nodes[0]} {mount}/{nodes[1]}").split()
        assert written == nodes, mount


def test_what_was_on_the_volume_is_still_there(moved: Bed) -> None:
    assert moved.ssh("cat", "/old/before") == "kept\n"
    assert moved.ssh("findmnt", "--noheadings", "--output", "FSTYPE", "/old").strip() == "ext4"
