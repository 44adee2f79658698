"""Examples booted as they are: p4d nodes with their GPUs and EFA interfaces, and two partitions with spot capacity."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from bed import ROOT, Bed

SUBJECTS = [
    "examples/p4d-fsx-smddp.yaml",
    "examples/g5-spot.yaml",
    "stacks/purchase.py",
    "bootstrap/steps/efa.sh",
    "localcloud/machines/guest/usr/bin/fi_info",
    "localcloud/machines/guest/usr/bin/nvidia-smi",
]
pytestmark = pytest.mark.timeout(480)


@pytest.fixture
def example_bed(empty_cloud: Bed, request: pytest.FixtureRequest) -> Bed:
    shutil.copy(ROOT / "examples" / f"{request.param}.yaml", empty_cloud.config)
    empty_cloud.client("s3").create_bucket(Bucket="my-bucket")  # what an example names must be there before `up`
    empty_cloud.up()
    return empty_cloud


def submit_srun(bed: Bed, *arguments: str) -> list[str]:
    """What each rank printed, without the rank's prefix."""
    done = bed.submit("--launcher", "srun", "--follow", *arguments)
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    return [line.partition("] ")[2] for line in done.log]


def nodes(bed: Bed) -> dict[str, dict[str, Any]]:
    """What EC2 says of the instance of each node."""
    pages = bed.client("ec2").get_paginator("describe_instances").paginate()
    instances = [each for page in pages for found in page["Reservations"] for each in found["Instances"]]
    named = ((tag["Value"], each) for each in instances for tag in each["Tags"] if tag["Key"] == "gpucluster:node")
    return dict(named)


@pytest.mark.parametrize("example_bed", ["p4d-fsx-smddp"], indirect=True)
def test_p4d_nodes_have_eight_gpus_and_four_efa_interfaces(example_bed: Bed) -> None:
    efa = "fi_info -p efa -t FI_EP_RDM | grep domain: | sort -u | wc -l"
    show = f"echo $(hostname) $(nvidia-smi -L | wc -l) gpus $({efa}) efa"
    said = submit_srun(
        example_bed, "--nodes", "2", "--ntasks-per-node", "1", "--gpus-per-node", "8", "--", "bash", "-c", show
    )
    assert {line for line in said if "gpus" in line} == {"train-1 8 gpus 4 efa", "train-2 8 gpus 4 efa"}
    assert {each["InstanceType"] for each in nodes(example_bed).values()} == {"p4d.24xlarge"}
    down = example_bed.gpucluster("down", "--yes", timeout_s=240)
    assert (down.returncode, "is protected against deletion" in down.stderr) == (2, True), down.stderr


@pytest.mark.parametrize("example_bed", ["g5-spot"], indirect=True)
def test_each_of_two_partitions_launches_what_it_buys(example_bed: Bed) -> None:
    for partition in ("spot", "steady"):
        said = submit_srun(example_bed, "--partition", partition, "--ntasks-per-node", "1", "--", "hostname")
        assert f"{partition}-1" in said
    bought = {name: each.get("InstanceLifecycle", "on-demand") for name, each in nodes(example_bed).items()}
    assert bought == {"spot-1": "spot", "steady-1": "on-demand"}
