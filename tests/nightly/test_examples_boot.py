"""Examples booted as they are: p4d nodes with their GPUs and EFA interfaces, two partitions with spot capacity, and a
Capacity Block of p5 nodes."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from bed import ROOT, Bed

from gpucluster.cluster import tagged_instances

SUBJECTS = [
    "examples/p4d-fsx-smddp.yaml",
    "examples/g5-spot.yaml",
    "examples/p5-capacity-block.yaml",
    "stacks/purchase.py",
    "bootstrap/steps/gpu/efa.sh",
    "localcloud/machines/guest/usr/bin/fi_info",
    "localcloud/machines/guest/usr/bin/nvidia-smi",
]
COVERED_BY = (
    "test_examples.py deploys the example with nearly every key; a node of g5.48xlarge boots for test_scratch.py"
)


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
    return {node: each for each in instances if (node := tagged_instances.node_of(each))}


def buy_block(bed: Bed, instance_type: str, count: int) -> dict[str, Any]:
    """A Capacity Block that has begun. EC2 chooses its zone."""
    ec2 = bed.client("ec2")
    wanted = {"InstanceType": instance_type, "InstanceCount": count, "CapacityDurationHours": 24}
    (offer,) = ec2.describe_capacity_block_offerings(**wanted)["CapacityBlockOfferings"]
    offering = {"CapacityBlockOfferingId": offer["CapacityBlockOfferingId"], "InstancePlatform": "Linux/UNIX"}
    return dict(ec2.purchase_capacity_block(**offering)["CapacityReservation"])


@pytest.fixture
def block_bed(empty_cloud: Bed) -> Bed:
    """The example with the two values that its comments ask for: the block's zone and the block's id."""
    block = buy_block(empty_cloud, "p5.48xlarge", 16)
    text = (ROOT / "examples" / "p5-capacity-block.yaml").read_text()
    for example, own in (("us-east-1f", "AvailabilityZone"), ("cr-0123456789abcdef0", "CapacityReservationId")):
        assert text.count(example) == 1
        text = text.replace(example, block[own])
    empty_cloud.config.write_text(text)
    empty_cloud.up()
    return empty_cloud


def test_p5_nodes_of_a_capacity_block_have_thirty_two_efa_interfaces(block_bed: Bed) -> None:
    efa = "fi_info -p efa -t FI_EP_RDM | grep domain: | sort -u | wc -l"
    show = f"echo $(hostname) $(nvidia-smi -L | wc -l) gpus $({efa}) efa"
    shape = ["--partition", "train", "--nodes", "2", "--ntasks-per-node", "1", "--gpus-per-node", "8"]
    said = submit_srun(block_bed, *shape, "--", "bash", "-c", show)
    assert {line for line in said if "gpus" in line} == {"train-1 8 gpus 32 efa", "train-2 8 gpus 32 efa"}
    launched = nodes(block_bed)
    bought = {name: each.get("InstanceLifecycle", "on-demand") for name, each in launched.items()}
    assert bought == {"train-1": "capacity-block", "train-2": "capacity-block", "debug-1": "on-demand"}
    assert launched["train-1"]["InstanceType"] == "p5.48xlarge"


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
