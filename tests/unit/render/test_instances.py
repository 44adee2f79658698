"""The table of instance types, against EC2's own description of them as moto ships it."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from moto.utilities.utils import load_resource

from gpucluster.hardware import prices
from gpucluster.hardware.instances import INSTANCE_TYPES, EfaMode, InstanceType, efa_layout
from localcloud.ec2.errors import Ec2Error
from localcloud.ec2.networks import interfaces

# moto's file, not its dictionary: a local cloud in this process adds to that what moto lacks.
CATALOGUE: dict[str, Any] = load_resource("ec2/resources/instance_types.json")
TYPES = list(INSTANCE_TYPES.values())
# One for each number of cards and interfaces: 900 types have a few dozen.
SHAPES = {(type_.efa_interfaces, type_.cards): type_ for type_ in TYPES}
DESCRIBED = [type_ for type_ in SHAPES.values() if type_.name in CATALOGUE]
ROOT = Path(__file__).parents[3]

NOT_IN_THE_CATALOGUE = {"p3.2xlarge", "p3.8xlarge", "p3.16xlarge"}
"""AWS no longer describes them in the region that moto's catalogue was taken from."""


def by_name(type_: InstanceType) -> str:
    return type_.name


def test_the_catalogue_lacks_only_what_is_known() -> None:
    assert {type_.name for type_ in TYPES if type_.name not in CATALOGUE} == NOT_IN_THE_CATALOGUE


def test_the_tables_are_what_the_tool_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that is what EC2 says: a type that changes in another version of moto shows here."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = import_module("instance_types")
    for name, text in tool.tables([]):
        assert (ROOT / "gpucluster/hardware" / name).read_text() == text, "run python tools/instance_types.py"


@pytest.mark.parametrize("name", ["p5.48xlarge", "c7a.xlarge", "hpc6id.32xlarge", "i7ie.48xlarge", "x1.32xlarge"])
def test_the_table_says_what_ec2_says(name: str) -> None:
    described = CATALOGUE[name]
    network, gpu = described["NetworkInfo"], described.get("GpuInfo", {"Gpus": [{}]})["Gpus"][0]
    disks = described.get("InstanceStorageInfo", {})
    assert INSTANCE_TYPES[name] == InstanceType(
        name=described["InstanceType"],
        vcpus=described["VCpuInfo"]["DefaultVCpus"],
        memory_gib=described["MemoryInfo"]["SizeInMiB"] // 1024,
        gpus=gpu.get("Count", 0),
        gpu_model=gpu["Name"].lower() if gpu else None,
        gpu_memory_mib=gpu["MemoryInfo"]["SizeInMiB"] if gpu else 0,
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        cards=tuple(card["MaximumNetworkInterfaces"] for card in network["NetworkCards"]),
        nvme_gb=disks.get("TotalSizeInGB", 0) if disks.get("NvmeSupport") == "required" else 0,
        default_threads=described["VCpuInfo"]["DefaultThreadsPerCore"],
        one_thread=1 in described["VCpuInfo"]["ValidThreadsPerCore"],
        hypervisor=described["Hypervisor"],
        recovered_by_alarm=described["AutoRecoverySupported"],
        close_together="cluster" in described["PlacementGroupInfo"]["SupportedStrategies"],
        spot="spot" in described["SupportedUsageClasses"],
    )


@pytest.mark.parametrize("type_", DESCRIBED, ids=by_name)
@pytest.mark.parametrize("mode", ["efa-only", "combined", "off"])
def test_every_card_takes_the_interfaces_of_the_layout(type_: InstanceType, mode: EfaMode) -> None:
    cards: list[dict[str, Any]] = CATALOGUE[type_.name]["NetworkInfo"]["NetworkCards"]
    layout = efa_layout(type_, mode)
    for interface in layout:
        card = cards[interface.network_card_index]
        assert interface.interface_type in card["InterfaceTypes"]
        on_card = [other for other in layout if other.network_card_index == interface.network_card_index]
        assert len(on_card) <= card["MaximumNetworkInterfaces"]


@pytest.mark.parametrize("type_", SHAPES.values(), ids=by_name)
@pytest.mark.parametrize("mode", ["efa-only", "combined"])
def test_the_layout_uses_every_efa_interface_once(type_: InstanceType, mode: EfaMode) -> None:
    layout = efa_layout(type_, mode)
    assert sum("efa" in interface.interface_type for interface in layout) == type_.efa_interfaces
    places = [(interface.network_card_index, interface.device_index) for interface in layout]
    assert places[0] == (0, 0)
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("type_", SHAPES.values(), ids=by_name)
def test_efa_off_gives_one_ordinary_interface(type_: InstanceType) -> None:
    assert [interface.interface_type for interface in efa_layout(type_, "off")] == ["interface"]


def layout(name: str, mode: EfaMode = "efa-only") -> list[tuple[int, int, str]]:
    return [
        (interface.network_card_index, interface.device_index, interface.interface_type)
        for interface in efa_layout(INSTANCE_TYPES[name], mode)
    ]


def test_p4d_has_a_primary_interface_and_four_efa_only() -> None:
    others = [(card, 0, "efa-only") for card in (1, 2, 3)]
    assert layout("p4d.24xlarge") == [(0, 0, "interface"), (0, 1, "efa-only"), *others]


def test_p5_is_launched_as_the_guide_launches_it() -> None:
    """EC2's user guide, efa-acc-inst-types, its run-instances example with 32 EFA interfaces."""
    others = [(card, 0, "efa-only") for card in range(1, 32)]
    assert layout("p5.48xlarge") == [(0, 0, "interface"), (0, 1, "efa-only"), *others]


@pytest.mark.parametrize("type_", DESCRIBED, ids=by_name)
@pytest.mark.parametrize("mode", ["efa-only", "combined", "off"])
def test_the_local_cloud_accepts_every_layout(type_: InstanceType, mode: EfaMode) -> None:
    interfaces.check(
        type_.name, nics(*((i.network_card_index, i.device_index, i.interface_type) for i in efa_layout(type_, mode)))
    )


@pytest.mark.parametrize(
    ("type_", "wanted", "code", "words"),
    [
        ("p5.48xlarge", [(0, 0, "interface"), (2, 2, "efa")], "InvalidParameterValue",
         "The specified number '2' for the device index exceeds the maximum number of network interfaces supported by "
         "the network card at network card index 2. The maximum devices for this network card is 2. Specify a number "
         "from 0 to 1, and try again."),
        ("m5.2xlarge", [(0, 0, "efa")], "UnsupportedOperation", "EFA interfaces are not supported on m5.2xlarge"),
        ("p4d.24xlarge", [(0, 0, "efa"), (0, 1, "efa")], "AttachmentLimitExceeded", "limit of 1 on network card 0"),
        ("p6-b300.48xlarge", [(0, 0, "interface"), (0, 1, "efa-only")], "AttachmentLimitExceeded",
         "limit of 0 on network card 0"),
    ],
)  # fmt: skip
def test_layouts_that_ec2_refuses(type_: str, wanted: list[tuple[int, int, str]], code: str, words: str) -> None:
    with pytest.raises(Ec2Error) as refused:
        interfaces.check(type_, nics(*wanted))
    assert code in str(refused.value) and words in str(refused.value)


@pytest.mark.parametrize("index", [0, 1])
def test_ec2_takes_both_device_indexes_on_a_further_card(index: int) -> None:
    interfaces.check("p5.48xlarge", nics((0, 0, "interface"), (1, index, "efa-only")))


def nics(*wanted: tuple[int, int, str]) -> list[dict[str, Any]]:
    return [dict(zip(("NetworkCardIndex", "DeviceIndex", "InterfaceType"), each, strict=True)) for each in wanted]


def test_p4d_combined_has_four_interfaces() -> None:
    assert layout("p4d.24xlarge", "combined") == [
        (0, 0, "efa"),
        *((card, 0, "efa") for card in (1, 2, 3)),
    ]


def test_p5_uses_its_32_cards_and_one_address() -> None:
    found = layout("p5.48xlarge")
    assert len(found) == 33
    assert {card for card, _, kind in found if kind == "efa-only"} == set(range(32))
    assert [kind for _, _, kind in found].count("interface") == 1


def test_card_0_of_p6_b300_has_no_efa() -> None:
    found = layout("p6-b300.48xlarge")
    assert [entry for entry in found if entry[0] == 0] == [(0, 0, "interface")]
    assert {card for card, _, kind in found if kind == "efa-only"} == set(range(1, 17))


def test_a_single_card_holds_both() -> None:
    assert layout("g5.12xlarge") == [(0, 0, "interface"), (0, 1, "efa-only")]


def test_a_card_with_room_for_one_interface_makes_the_primary_one_efa() -> None:
    narrow = InstanceType("x1.large", 2, 8, 1, "h100", 1024, 2, (1, 1), 0)
    kinds = [(i.network_card_index, i.device_index, i.interface_type) for i in efa_layout(narrow)]
    assert kinds == [(0, 0, "efa"), (1, 0, "efa-only")]


def test_gpu_models_are_names_that_slurm_takes() -> None:
    assert all(re.fullmatch(r"[a-z][a-z0-9]*", type_.gpu_model) for type_ in TYPES if type_.gpu_model)
    assert all((type_.gpus > 0) is (type_.gpu_model is not None) for type_ in TYPES)


def test_a_larger_size_never_costs_less_per_family_of_cpus() -> None:
    """Would catch a slipped column or decimal point."""
    for family in ("c5", "c6a", "c6i", "c7i", "m4", "m5", "m6a", "m6i", "m7a", "m7i", "r5", "r6i", "r7i", "p3"):
        sizes = sorted((t for t in TYPES if t.name.startswith(f"{family}.")), key=lambda t: t.vcpus)
        for small, large in pairwise(sizes):
            prices_of = [prices.usd(each.name, "us-east-1") for each in (small, large)]
            assert prices_of[0] and prices_of[1]
            assert prices_of[0] / small.vcpus == pytest.approx(prices_of[1] / large.vcpus, rel=0.01)


WITHOUT_PRICE = r"(p5e|hpc\d\w+|x8aedz|t8i)\."
"""p5e is sold in Capacity Blocks only, the hpc types in few regions; the others are newer than the price lists."""
REGIONS = Path(prices.__file__).with_name("prices.csv").read_text().splitlines()[0].split(",")[3:]


def test_every_type_has_a_price_in_us_east_1() -> None:
    without = [type_.name for type_ in TYPES if prices.of(type_.name, "us-east-1") is None]
    assert [name for name in without if not re.match(WITHOUT_PRICE, name)] == []


def test_a_type_has_a_price_in_the_regions_that_sell_it() -> None:
    assert prices.of("hpc6a.48xlarge", "us-east-2") == (2.88, "us-east-2", "2025-04-04")
    assert prices.of("hpc6a.48xlarge", "eu-west-1") is None


@pytest.mark.parametrize("region", REGIONS)
def test_a_region_is_a_little_dearer_than_us_east_1(region: str) -> None:
    """Would catch a slipped column or decimal point. eu-north-1 and ap-south-1 have sizes that cost less; AMD's (c5a,
    c6a, m6a, m5ad, t3a) cost up to 45 % less in India."""
    known = [price for type_ in TYPES if (price := prices.of(type_.name, region)) and price.region == region]
    assert known and all(price.as_of >= "2025" for price in known)
    names = {type_.name: prices.of(type_.name, region) for type_ in TYPES}
    for name, price in names.items():
        reference = prices.usd(name, "us-east-1")
        amd_in_india = region.startswith("ap-south-") and re.match(r"[a-z]\d+ad?\.", name)
        if price and reference:
            assert (0.5 if amd_in_india else 0.85) < price.usd / reference < 2.2, (name, price)


def test_a_price_that_no_region_has() -> None:
    assert prices.of("p5e.48xlarge", "eu-west-1") is None
    assert prices.where_and_when("eu-west-1", {}) == "on demand in eu-west-1"
