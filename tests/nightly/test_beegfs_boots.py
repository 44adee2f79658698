"""A file system in the memory of static nodes: filled from S3, read by jobs, made again when a node is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened

SUBJECTS = [
    "stacks/storage/beegfs.py",
    "bootstrap/gpucluster_node/beegfs*.py",
    "bootstrap/gpucluster_node/locations.py",
    "bootstrap/steps/storage/beegfs*.sh",
    "localcloud/machines/guest/usr/lib/localcloud/beegfs-services",
]
COVERED_BY = "test_job_ram.py (BeeGFS for a job, booted), test_node_beegfs.py, test_beegfs_steps.py"
CLUSTER = """\
name: Ram
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], min_nodes: 2, max_nodes: 2}]
storage: [{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 1, source: "s3://beegfs-tests/data"}]
software: {frameworks: [torch]}
accounting: "off"
"""
FILES = {f"part{number % 2}/{number}.txt": f"file {number}\n" * 100 for number in range(10)}
# It names no file of the file system, so that only its node can tell that it uses one.
SCRIPT = """\
#!/bin/bash
cd $(printf %s%s /ra m)/part0
exec 5<0.txt
echo run ${SLURM_RESTART_COUNT:-0} reads $(wc -c <0.txt)
sleep 600
"""
SIZE = len(FILES["part0/0.txt"])


@pytest.fixture(scope="module")
def ram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("ram"))
    bed.config.write_text(CLUSTER)
    with opened(bed):
        s3 = bed.client("s3")
        s3.create_bucket(Bucket="beegfs-tests")
        for name, text in FILES.items():
            s3.put_object(Bucket="beegfs-tests", Key=f"data/{name}", Body=text.encode())
        bed.up()
        yield bed


def state(bed: Bed) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bed.ssh("cat /home/gpucluster/beegfs/state.json 2>/dev/null || echo '{}'"))
    return found


def is_ready(bed: Bed, generation: str) -> bool:
    now = state(bed)
    return (now.get("generation"), now.get("phase")) == (generation, "ready")


def node_state(bed: Bed, name: str) -> str:
    return bed.ssh(f"sinfo --noheader --Node --nodes {name} --format '%T %E'").strip()


def instance_of(bed: Bed, node: str) -> str:
    return next(id_ for id_, each in bed.instances("compute").items() if each["node"] == node)


def log(bed: Bed) -> str:
    return bed.ssh("cat reader.log 2>/dev/null || true")


def test_it_is_filled_and_survives_the_loss_of_a_node_as_another_generation(ram: Bed) -> None:
    wait_for("the first generation", lambda: is_ready(ram, "1"), 300, 3)
    listed = ram.ssh("cd /ram && find . -type f -printf '%P %s\\n' | sort").splitlines()
    assert listed == sorted(f"{name} {len(text)}" for name, text in FILES.items())
    assert ram.ssh("touch /ram/mine && stat -c %U /ram/part0/0.txt /ram/mine").split() == ["ubuntu", "ubuntu"]

    ram.ssh(f"cat >reader.sh <<'END'\n{SCRIPT}END")
    job = ram.ssh("sbatch --parsable --nodelist train-1 --output reader.log --open-mode append reader.sh").strip()
    wait_for("the job to read", lambda: f"run 0 reads {SIZE}" in log(ram), 60, 2)

    assert ram.localcloud("fault", "add", "death", "--instance-id", instance_of(ram, "train-2")).returncode == 0
    wait_for("the loss to be told", lambda: "/ram is being built, because train-2" in node_state(ram, "train-1"), 60, 2)
    assert state(ram)["generation"] == "2"
    held = f"squeue --noheader --jobs {job} --format '%T %r'"
    wait_for("the job to be held", lambda: "PENDING job requeued in held state" in ram.ssh(held), 60, 2)
    assert ram.ssh("ls /ram") == "" or is_ready(ram, "2")

    wait_for("the second generation", lambda: is_ready(ram, "2"), 300, 3)
    assert ram.ssh("test -e /ram/mine && echo there || echo gone").strip() == "gone"
    assert ram.ssh("cat /ram/part1/1.txt") == FILES["part1/1.txt"]
    wait_for("the job to run again", lambda: f"run 1 reads {SIZE}" in log(ram), 180, 3)
    assert "drain" not in node_state(ram, "train-1")
    ram.ssh(f"scancel {job}")
