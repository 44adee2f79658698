from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpucluster.config import limits, load, loads, validators
from gpucluster.config.storage import BeegfsRam, Efs, FsxLustre
from gpucluster.config.storage.fsx.lustre import TIERS_MBPS_PER_TIB
from gpucluster.config.storage.fsx.sizes import STEP_GIB
from gpucluster.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]

BASE = """\
name: GpuCluster
region: us-east-1
partitions:
  - {name: train, instance_types: [p4d.24xlarge, p4de.24xlarge], max_nodes: 8}
"""


def problems(text: str) -> list[str]:
    """`key: message` of each, or none."""
    try:
        loads(text)
    except ConfigError as error:
        return [f"{problem.key}: {problem.message}" for problem in error.problems]
    return []


def test_defaults_are_those_of_the_reference() -> None:
    config = loads(BASE)
    (partition,) = config.partitions
    assert (partition.min_nodes, partition.purchase, partition.placement_group) == (0, "on-demand", "cluster")
    assert (partition.efa, partition.idle_minutes, partition.image) == ("auto", 10, None)
    assert (config.head_node.instance_type, config.head_node.volume_gib) == ("m6i.2xlarge", 200)
    assert (config.network.vpc_cidr, config.network.internet) == ("10.0.0.0/16", "nat")
    assert (config.software.image, config.software.frameworks) == ("dlami-ubuntu-24.04", ("torch", "horovod"))
    assert (config.accounting, config.parameter_servers, config.budget) == ("local", None, None)
    assert [(storage.mount, storage.type) for storage in config.storage] == [("/home", "head-nfs")]


def test_names_that_the_other_parts_share() -> None:
    config = loads(BASE)
    assert config.zone == "gpucluster.internal"
    assert config.ssm_path == "/gpucluster/GpuCluster/"
    assert config.home.type == "head-nfs"


def test_home_exists_even_if_storage_names_only_other_mounts() -> None:
    config = loads(BASE + "storage: [{mount: /data, type: efs}]\n")
    assert (config.home.mount, config.home.type) == ("/home", "head-nfs")


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError):
        loads(BASE).name = "Other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("train", True),
        ("a", True),
        ("gpu8", True),
        ("a-100b", True),
        ("a" * 20, True),
        ("a" * 21, False),
        ("train-1", False),
        ("train-1-x", True),
        ("train-", False),
        ("8gpu", False),
        ("Train", False),
        ("tr_ain", False),
        ("träin", False),
        ("train\n", False),
        ("head", False),
        ("ps", False),
        ("default", False),
    ],
)
def test_partition_names_that_slurm_and_dns_take(name: str, fine: bool) -> None:
    partition = {"name": name, "instance_types": ["g5.xlarge"], "max_nodes": 1}
    found = problems(json.dumps({"name": "a", "region": "us-east-1", "partitions": [partition]}))
    assert (not found) is fine, found


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("G", True),
        ("Gpu-Cluster2", True),
        ("a" * 40, True),
        ("a" * 41, False),
        ("2g", False),
        ("g-", False),
        ("g.x", False),
    ],
)
def test_cluster_names_that_cloudformation_and_slurm_take(name: str, fine: bool) -> None:
    assert (not problems(BASE.replace("GpuCluster", name))) is fine


def lustre(**keys: Any) -> FsxLustre:
    return FsxLustre(mount="/fsx", type="fsx-lustre", **keys)


def accepted(storage: FsxLustre) -> bool:
    config = loads(BASE).model_copy(update={"storage": (storage,)})
    dumped = config.model_dump(by_alias=True)
    try:
        loads(json.dumps(dumped))
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("deployment", STEP_GIB)
def test_lustre_capacities_are_steps(deployment: str) -> None:
    step = STEP_GIB[deployment]
    sizes = {size for size in range(1200, 15000, 1200) if accepted(lustre(deployment=deployment, capacity_gib=size))}
    assert sizes == {1200, 2400, *(size for size in range(2400, 15000, 1200) if size % step == 0)}


@pytest.mark.parametrize("deployment", TIERS_MBPS_PER_TIB)
def test_lustre_throughput_is_one_of_the_tiers_of_the_deployment(deployment: str) -> None:
    tiers = {
        t
        for t in (50, 100, 125, 200, 250, 500, 1000)
        if accepted(lustre(deployment=deployment, throughput_mbps_per_tib=t))
    }
    assert tiers == set(TIERS_MBPS_PER_TIB[deployment])


def test_every_node_has_an_address() -> None:
    assert not problems(BASE.replace("max_nodes: 8", "max_nodes: 115") + "network: {vpc_cidr: 10.0.0.0/24}\n")
    assert problems(BASE.replace("max_nodes: 8", "max_nodes: 116") + "network: {vpc_cidr: 10.0.0.0/24}\n")


@pytest.mark.parametrize(
    ("zone", "fine"),
    [
        ("us-east-1a", True),
        ("us-east-1-bos-1a", True),
        ("us-east-1", False),
        ("us-east-2a", False),
        ("use1-az1", False),
    ],
)
def test_the_availability_zone_is_of_the_region(zone: str, fine: bool) -> None:
    assert (not problems(BASE + f"availability_zone: {zone}\n")) is fine


def test_a_new_region_is_a_warning_only() -> None:
    config = loads(BASE.replace("us-east-1", "eu-north-9"))
    assert [(notice.key, notice.line) for notice in config.warnings()] == [("region", 2)]


def test_the_default_cluster_is_the_one_of_the_readme() -> None:
    config = load(ROOT / "cluster.yaml")
    assert (config.name, config.region) == ("GpuCluster", "us-east-1")
    assert [(p.name, p.instance_types, p.min_nodes, p.max_nodes) for p in config.partitions] == [
        ("train", ("g5.12xlarge",), 0, 4)
    ]


@pytest.mark.parametrize(("head", "refused"), [("m4.xlarge", True), ("p3.2xlarge", True), ("m6i.large", False)])
def test_the_head_node_needs_volumes_that_are_nvme_devices(head: str, refused: bool) -> None:
    found = problems(BASE + f"head_node: {{instance_type: {head}}}\n")
    assert any("Xen" in each for each in found) is refused


@pytest.mark.parametrize("version", ["8", "7.4"])
def test_a_version_of_beegfs_needs_no_quotes(version: str) -> None:
    entry = f"{{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 100, scope: job, version: {version}}}"
    assert version in [getattr(mount, "version", "") for mount in loads(f"{BASE}storage: [{entry}]").storage]


def test_a_kind_of_storage_names_its_limits_by_itself() -> None:
    """Kinds may have keys of the same name."""
    path = ("storage", 0, "version")
    assert [limits.name_of("literal_error", path, kind) for kind in (BeegfsRam, Efs)] == ["beegfs-version", ""]


@pytest.mark.parametrize("annotation", [Efs | FsxLustre, "Efs | FsxLustre"], ids=["evaluated", "postponed"])
def test_a_check_names_the_kinds_of_its_entries_by_types_or_by_their_names(annotation: Any) -> None:
    def check(entry: Any) -> None: ...

    check.__annotations__["entry"] = annotation
    assert validators._entries(check) == (Efs, FsxLustre)


@pytest.mark.parametrize(
    ("value", "meant"), [("off", "none"), ("disabled", "none"), ("yes", "cluster"), ("auto", "cluster")]
)
def test_a_word_that_switches_is_no_placement_group(value: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(BASE.replace("max_nodes: 8", f"max_nodes: 8, placement_group: {value}"))
    assert [problem.hint for problem in caught.value.problems] == [f"did you mean {meant!r}?"]


@pytest.mark.parametrize(
    ("value", "hint"), [("false", "write none"), ("true", "write cluster"), ("null", "write none")]
)
def test_a_boolean_is_no_placement_group(value: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(BASE.replace("max_nodes: 8", f"max_nodes: 8, placement_group: {value}"))
    assert [(problem.message, problem.hint) for problem in caught.value.problems] == [
        (f"must be cluster, none or the name of a placement group, got {'nothing' if value == 'null' else value}", hint)
    ]


def test_a_section_is_no_placement_group() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(BASE.replace("max_nodes: 8", "max_nodes: 8, placement_group: {enabled: false}"))
    (problem,) = caught.value.problems
    assert problem.message == "must be cluster, none or the name of a placement group, not a section or a list"
