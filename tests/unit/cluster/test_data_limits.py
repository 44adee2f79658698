"""Notes of `plan` and lines of `types` about clusters that train on images faster than their data can come."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.cluster import data_limits
from gpucluster.config import loads
from gpucluster.hardware import training_speed
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.layout import expand

ROOT = Path(__file__).parents[3]
CLUSTER = """
name: Test
region: us-east-1
partitions: [{{name: train, instance_types: [{types}], max_nodes: {nodes}}}]
storage: [{{mount: /home, type: head-nfs}}, {{mount: /fsx, type: fsx-lustre, {fsx}}}]
"""


def notes(types: str, nodes: int = 8, fsx: str = "capacity_gib: 4800, throughput_mbps_per_tib: 250") -> list[str]:
    return data_limits.notes(expand(loads(CLUSTER.format(types=types, nodes=nodes, fsx=fsx))))


def test_the_file_system_of_the_p4d_example_feeds_a_fifteenth_of_its_gpus() -> None:
    """4,800 GiB are 4.6875 TiB of 250 MB/s: 1,172 MB/s, 10,190 images of 115,000 bytes. 64 x 2,470 is 158,080."""
    vcpus, storage = data_limits.notes(expand(loads((ROOT / "examples/p4d-fsx-smddp.yaml").read_text())))
    assert vcpus == (
        "if you train on images: p4d.24xlarge: 12 vCPUs per A100 decode about 2,300 images/s; one A100 trains on "
        "about 2,500 (ResNet-50): decode on the GPU"
    )
    assert storage == (
        "if you train on images: /fsx gives 1.2 GB/s, 10,200 images/s of ImageNet's size; the 64 GPUs of train train "
        "on 158,100 (ResNet-50): use a copy on the nodes' own disks (a channel with mode: copy), or a larger file "
        "system"
    )


@pytest.mark.parametrize(
    ("types", "nodes", "fsx", "remedy"),
    [
        ("p4d.24xlarge", 1, "capacity_gib: 4800", "(a channel with mode: copy), or throughput_mbps_per_tib: 500"),
        ("p4d.24xlarge", 1, "capacity_gib: 4800, throughput_mbps_per_tib: 500", None),
        ("p4d.24xlarge", 1, "capacity_gib: 2400, deployment: scratch-2", "or a larger file system"),
        ("p5.48xlarge", 1, "capacity_gib: 7200", "or throughput_mbps_per_tib: 1000"),
        ("g5.48xlarge", 8, "capacity_gib: 1200", None),  # nobody has published a figure
        ("c5.24xlarge", 8, "capacity_gib: 1200", None),
    ],
)
def test_slow_storage_is_noted_with_what_would_be_enough(types: str, nodes: int, fsx: str, remedy: str | None) -> None:
    found = [each for each in notes(types, nodes, fsx) if "/fsx" in each]
    assert [each.endswith(remedy or "") for each in found] == [True] * (remedy is not None), found


@pytest.mark.parametrize(
    ("name", "slow"),
    [("p3.16xlarge", True), ("p3dn.24xlarge", False), ("p4d.24xlarge", True), ("p5.4xlarge", True)]
    + [("p5.48xlarge", False), ("g5.48xlarge", False), ("m6i.large", False)],
)
def test_types_whose_vcpus_cannot_feed_their_gpus(name: str, slow: bool) -> None:
    each = INSTANCE_TYPES[name]
    assert training_speed.decodes_too_slowly(each) is slow
    assert training_speed.sentence(each).endswith("decode on the GPU") is slow


def test_most_clusters_hear_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(ROOT / "cluster.yaml"), "plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    main(["-c", str(ROOT / "examples/p4d-fsx-smddp.yaml"), "plan"])
    assert capsys.readouterr().err.count("note: if you train on images: ") == 2


def test_types_says_it_of_the_types_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["types", "p5.48xlarge", "g5.xlarge"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[5] for line in out.splitlines()[1:]] == ["24", "4"]
    assert "p5.48xlarge: 24 vCPUs per H100 decode about 6,000 images/s; one H100 trains on about 5,300" in err
    assert "g5.xlarge" not in err
    assert main(["types"]) == 0
    assert "vCPUs per" not in capsys.readouterr().err


def test_each_figure_has_an_origin() -> None:
    with (ROOT / "gpucluster/hardware/training_speed.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    families = {name.partition(".")[0] for name in INSTANCE_TYPES}
    models = {each.gpu_model for each in INSTANCE_TYPES.values()}
    for row in rows:
        assert row["origin"] in ("published", "derived", "estimated") and row["source"]
        assert row["item"] in models or row["item"].removesuffix(" vCPU") in families
