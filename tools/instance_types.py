"""Writes the tables of EC2's instance types in gpucluster/hardware/ from AWS's published data.

usage: python tools/instance_types.py [--prices KARPENTER EC2_SHOP]

instances.csv and other_types.csv come from EC2's DescribeInstanceTypes, in the copy that moto ships. With --prices,
prices.csv gets a row for each type that it lacks, from clones of github.com/aws/karpenter-provider-aws (us-east-1) and
github.com/yeo/ec2.shop (AWS's own files for other regions); rows that it has stay.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from moto.utilities.utils import load_resource

HARDWARE = Path(__file__).parents[1] / "gpucluster" / "hardware"
HEADER = (
    "type,vcpus,memory_gib,gpus,model,gpu_mib,efa,cards,nvme_gb,threads,one_thread,hypervisor,recovers,close_together,"
    "spot"
)
LEAST_GIB = 4
GPUS = re.compile(r"p3dn|p4de?|p5e?n?|p6-b[23]00|g4dn|g5|g6e?|gr6")
"""The families with GPUs for which hardware/software.py has drivers and libraries."""
KINDS = ("p", "g", "hpc", "c", "m", "r", "x", "z", "i", "d", "h", "t", "u")
"""In this order `gpucluster types` lists them."""

# AWS no longer describes P3: the cards are in Karpenter's list of VPC limits, the rest is on AWS's P3 page.
P3 = (
    "p3.2xlarge,8,61,1,v100,16384,0,1x4,0,2,yes,xen,no,yes,yes",
    "p3.8xlarge,32,244,4,v100,16384,0,1x8,0,2,yes,xen,no,yes,yes",
    "p3.16xlarge,64,488,8,v100,16384,0,1x8,0,2,yes,xen,no,yes,yes",
)
ACCELERATORS = ("GpuInfo", "FpgaInfo", "NeuronInfo", "InferenceAcceleratorInfo", "MediaAcceleratorInfo")

# Types of AWS's price lists that the catalogue lacks: EC2 offers them in few regions, to few accounts, or no longer.
NOT_DESCRIBED = (
    "cc2.8xlarge",
    "cr1.8xlarge",
    "hs1.8xlarge",
    "i3.metal",
    "i3p.16xlarge",
    "u-12tb1.112xlarge",
    "u-18tb1.112xlarge",
    "u-24tb1.112xlarge",
    "u-9tb1.112xlarge",
)


EC2_SHOP_DATE = "2025-04-04"
"""hawkFilePublicationDate of AWS's files in that repository."""


def catalogue() -> dict[str, Any]:
    found: dict[str, Any] = load_resource("ec2/resources/instance_types.json")
    return found


def order(name: str) -> tuple[Any, ...]:
    """By kind, generation, family and size."""
    family, _, size = name.partition(".")
    kind, generation = re.match(r"([a-z]+)-?(\d*)", family).groups()  # type: ignore[union-attr]
    number = re.search(r"\d+", size)
    small = ("nano", "micro", "small", "medium", "large", "xlarge")
    rank = small.index(size) if size in small else 10 + int(number[0] if number else 10_000)
    kind = "g" if kind == "gr" else kind
    return KINDS.index(kind) if kind in KINDS else len(KINDS), int(generation or 0), family, rank, size


def supported(each: dict[str, Any]) -> bool:
    """x86-64 with enough memory, and no accelerators or those that we have software for."""
    family = each["InstanceType"].partition(".")[0]
    plain = not any(key in each for key in ACCELERATORS) and not family.startswith("trn")  # trn2u has no NeuronInfo
    return bool(plain or GPUS.fullmatch(family)) and is_x86(each) and gib(each) >= LEAST_GIB


def is_x86(each: dict[str, Any]) -> bool:
    return "x86_64" in each["ProcessorInfo"]["SupportedArchitectures"]


def gib(each: dict[str, Any]) -> int:
    return int(each["MemoryInfo"]["SizeInMiB"]) // 1024


def row(each: dict[str, Any]) -> str:
    gpu = each.get("GpuInfo", {}).get("Gpus", [{}])[0]
    cpus, disks = each["VCpuInfo"], each.get("InstanceStorageInfo", {})
    nvme = disks.get("TotalSizeInGB", 0) if disks.get("NvmeSupport") == "required" else 0
    cells = (
        each["InstanceType"],
        cpus["DefaultVCpus"],
        gib(each),
        gpu.get("Count", 0),
        gpu["Name"].lower() if gpu else "",
        gpu["MemoryInfo"]["SizeInMiB"] if gpu else 0,
        each["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        cards([int(card["MaximumNetworkInterfaces"]) for card in each["NetworkInfo"]["NetworkCards"]]),
        nvme,
        cpus["DefaultThreadsPerCore"],
        yes(cpus["DefaultThreadsPerCore"] == 1 or 1 in cpus.get("ValidThreadsPerCore", ())),
        each.get("Hypervisor", "none"),
        yes(each["AutoRecoverySupported"]),
        yes("cluster" in each["PlacementGroupInfo"]["SupportedStrategies"]),
        yes("spot" in each["SupportedUsageClasses"]),
    )
    return ",".join(map(str, cells))


def yes(value: bool) -> str:
    return "yes" if value else "no"


def cards(most: list[int]) -> str:
    """`4x15`, or `1x8 1x7` if they differ."""
    groups: list[list[int]] = []
    for each in most:
        if not groups or groups[-1][1] != each:
            groups.append([0, each])
        groups[-1][0] += 1
    return " ".join(f"{count}x{each}" for count, each in groups)


def instances() -> str:
    rows = [*P3, *(row(each) for each in catalogue().values() if supported(each))]
    return "\n".join([HEADER, *sorted(rows, key=lambda line: order(line.partition(",")[0]))]) + "\n"


def other_types() -> str:
    """The types without accelerators that are too small, or that EC2's catalogue lacks: those have no memory here."""
    small = {
        name: f"{each['MemoryInfo']['SizeInMiB'] / 1024:g}"
        for name, each in catalogue().items()
        if is_x86(each) and gib(each) < LEAST_GIB
    }
    rows = small | {name: "" for name in NOT_DESCRIBED if name not in catalogue()}
    return "\n".join(["type,memory_gib", *(f"{name},{rows[name]}" for name in sorted(rows, key=order))]) + "\n"


def show(repository: str, path: str) -> str:
    return subprocess.run(
        ["git", "-C", repository, "show", f"HEAD:{path}"], check=True, capture_output=True, text=True
    ).stdout


def in_us_east_1(karpenter: str) -> tuple[str, dict[str, str]]:
    """The list's date, and its prices."""
    text = show(karpenter, "pkg/providers/pricing/zz_generated.pricing_aws.go")
    (date,) = re.findall(r"generated at (\d{4}-\d\d-\d\d)", text)
    return date, dict(re.findall(r'"([a-z0-9-]+\.[a-z0-9-]+)": ([0-9.]+)', text))


def in_region(ec2_shop: str, region: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for generation in ("previousgen-ondemand", "ondemand"):
        text = show(ec2_shop, f"data/ec2/{region}-{generation}.json")
        if not text.startswith("{"):  # the region has no older generations
            continue
        (offers,) = json.loads(text)["regions"].values()
        found |= {offer["Instance Type"]: offer["price"] for offer in offers.values()}
    return found


def prices(karpenter: str, ec2_shop: str) -> str:
    header, *rows = csv.reader((HARDWARE / "prices.csv").read_text().splitlines())
    has = {each[0] for each in rows}
    missing = [name for name in map(first, instances().splitlines()[1:]) if name not in has]
    date, listed = in_us_east_1(karpenter)
    here, *others = (in_region(ec2_shop, region) for region in header[3:])
    made: list[list[str]] = []
    for name in missing:
        # Karpenter's list has 10 % too much for these: gpucluster/hardware/prices.py.
        own = name.endswith("metal-24xl") and name in here
        cells = [(here if own else listed).get(name, ""), *(each.get(name, "") for each in others)]
        if any(cells):
            made.append([name, EC2_SHOP_DATE if own else date, EC2_SHOP_DATE, *map(short, cells)])
    last = max(index for index, each in enumerate(rows) if "." in each[0]) + 1
    return written([header, *rows[:last], *made, *rows[last:]])


def first(line: str) -> str:
    return line.partition(",")[0]


def short(price: str) -> str:
    return f"{float(price):.6f}".rstrip("0").rstrip(".") if price else ""


def written(rows: Iterable[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def tables(arguments: list[str]) -> Iterator[tuple[str, str]]:
    yield "instances.csv", instances()
    yield "other_types.csv", other_types()
    if arguments:
        option, karpenter, ec2_shop = arguments
        if option != "--prices":
            raise SystemExit(__doc__)
        yield "prices.csv", prices(karpenter, ec2_shop)


if __name__ == "__main__":
    for name, text in tables(sys.argv[1:]):
        (HARDWARE / name).write_text(text)
