"""`gpucluster types`: lists the supported instance types, with their hardware and prices."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError
from gpucluster.hardware import prices, training_speed
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.hardware.unsupported import not_supported
from gpucluster.meant import did_you_mean

HEADING = ["type", "vCPUs", "GiB", "GPUs", "vCPUs/GPU", "GPU GiB", "EFA", "NVMe GB", "$/hour"]


EXAMPLES = """\b
Examples:
  gpucluster types                             # those with GPUs
  gpucluster types hpc6a c7i --region us-east-2    # families without
  gpucluster types p5 g6e.xlarge               # a family and a type
  gpucluster types --gpus 8 --efa --region eu-west-1
"""


@click.command(epilog=EXAMPLES)
@click.argument("names", nargs=-1, metavar="[TYPE|FAMILY]...")
@click.option("--all", "with_cpus", is_flag=True, help="Show also the types without GPUs.")
@click.option("--gpus", type=click.IntRange(min=0), metavar="N", help="Show only types with N GPUs; 0: those without.")
@click.option(
    "--efa", is_flag=True, help="Show only types with EFA, AWS's network adapter for training on several nodes."
)
@click.option(
    "--region",
    metavar="REGION",
    help="Show the prices of this region, and ask AWS which of its zones offer each type. Needs credentials.  "
    f"[default: prices of {prices.REFERENCE}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(
    context: CliContext,
    names: tuple[str, ...],
    with_cpus: bool,
    gpus: int | None,
    efa: bool,
    region: str | None,
    as_json: bool,
) -> int:
    """List the instance types that a cluster can have, with their hardware and their on-demand price in USD per hour.

    Without names it lists the types with GPUs; --all, --gpus 0 and names list others too.

    With names it also says how many images a type's vCPUs decode, and its GPUs train on, where that is known.

    GPU GiB is the memory of one GPU, EFA the number of network interfaces with EFA, NVMe GB the size of the local
    disks.
    """
    found = _chosen(names, gpus, efa, with_cpus)
    zones = _zones(region, [each.name for each in found]) if region else None
    if as_json:
        click.echo(json.dumps(_json(found, zones, region or prices.REFERENCE)))
        return 0
    if not found:
        click.echo(f"no instance type with {_asked(names, gpus, efa)}", err=True)
        return 0
    for line in columns(_rows(found, zones, region or prices.REFERENCE)):
        click.echo(line)
    for each in found if names else ():
        if said := training_speed.sentence(each):
            click.echo(said, err=True)
    if not names and not with_cpus and gpus is None:
        others = sum(not each.gpus for each in INSTANCE_TYPES.values())
        click.echo(f"{others} types without GPUs: `gpucluster types --all`, or name a family, such as c7i", err=True)
    click.echo(f"prices: {_prices(found, region or prices.REFERENCE)}; -: not known", err=True)
    return 0


def _asked(names: tuple[str, ...], gpus: int | None, efa: bool) -> str:
    """What no type has; at least one of `gpus` and `efa` is set, because each name is known."""
    count = [] if gpus is None else [f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}"]
    return " and ".join([*count, *["EFA"] * efa]) + (f" among {', '.join(names)}" if names else "")


def _prices(found: list[InstanceType], region: str) -> str:
    return prices.where_and_when(
        region, {each.name: price for each in found if (price := prices.of(each.name, region))}
    )


def _chosen(names: tuple[str, ...], gpus: int | None, efa: bool, with_cpus: bool) -> list[InstanceType]:
    """Raises UsageError for a name that is neither a type nor a family."""
    families = sorted({name.partition(".")[0] for name in INSTANCE_TYPES})
    for name in names:
        if name not in INSTANCE_TYPES and name not in families:
            if why := not_supported(name):
                raise UsageError(f"{name}: GpuCluster does not support this instance type or family", why)
            hint = did_you_mean(name, [*families, *INSTANCE_TYPES], "`gpucluster types --all` lists all")
            raise UsageError(f"{name!r} is not a known instance type or family", hint)
    return [
        each
        for each in sorted(INSTANCE_TYPES.values(), key=_newest_first)
        if (not names or each.name in names or each.name.partition(".")[0] in names)
        and (names or with_cpus or each.gpus if gpus is None else each.gpus == gpus)
        and (each.efa_interfaces or not efa)
    ]


def _newest_first(each: InstanceType) -> tuple[int, int]:
    """The table has the families of a kind (P, G) one after another, the oldest first."""
    kinds, families = _order()
    family = each.name.partition(".")[0]
    return kinds[_kind(family)], -families[family]


@cache
def _order() -> tuple[dict[str, int], dict[str, int]]:
    families = dict.fromkeys(name.partition(".")[0] for name in INSTANCE_TYPES)
    kinds = dict.fromkeys(map(_kind, families))
    return {each: place for place, each in enumerate(kinds)}, {each: place for place, each in enumerate(families)}


def _kind(family: str) -> str:
    return family[0] if family.startswith("g") else re.split(r"[-\d]", family)[0]


def _zones(region: str, names: list[str]) -> dict[str, list[str]]:
    """Type -> zones of the region that offer it."""
    import boto3

    from gpucluster.cluster import aws, plan

    with aws.aws_errors():
        return plan.zones_of(boto3.client("ec2", region_name=region, config=aws.patient()), names)


def _json(found: list[InstanceType], zones: dict[str, list[str]] | None, region: str) -> dict[str, Any]:
    types = [
        each._asdict()
        | {"vcpus_per_gpu": each.vcpus_per_gpu or None, "images": training_speed.sentence(each) or None}
        | _price_json(prices.of(each.name, region))
        | ({"zones": zones.get(each.name, [])} if zones is not None else {})
        for each in found
    ]
    return {"types": types, "prices": _prices(found, region)}


def _price_json(price: prices.Price | None) -> dict[str, Any]:
    return {"price_usd_per_hour": price and price.usd, "price_region": price and price.region}


def _rows(found: list[InstanceType], zones: dict[str, list[str]] | None, region: str) -> list[list[str]]:
    rows = [HEADING + ([] if zones is None else ["zones"])]
    for each in found:
        gpus = f"{each.gpus} {each.gpu_model}" if each.gpus else ""
        gpu_gib = f"{each.gpu_memory_mib / 1024:.0f}" if each.gpus else ""
        price = _price(prices.of(each.name, region), region)
        row = [each.name, f"{each.vcpus}", f"{each.memory_gib}", gpus, f"{each.vcpus_per_gpu or ''}", gpu_gib]
        row += [f"{each.efa_interfaces or ''}", f"{each.nvme_gb or ''}", price]
        rows.append(row + ([] if zones is None else [" ".join(zones.get(each.name, [])) or "none"]))
    return rows


def _price(price: prices.Price | None, region: str) -> str:
    if price is None:
        return "-"
    return f"{price.usd:.2f}" if price.region == region else f"{price.usd:.2f} in {price.region}"
