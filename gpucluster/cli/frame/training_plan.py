"""The part of `plan` for jobs on SageMaker: their price beside the cluster's, and what AWS would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gpucluster.errors import CloudError, GpuClusterError

if TYPE_CHECKING:
    from gpucluster.sagemaker.found import Found
    from gpucluster.sagemaker.online import Fault


class Shown(NamedTuple):
    instance_type: str
    region: str
    usd_per_hour: float | None
    """The price of one instance."""
    usd_per_hour_ec2: float | None
    """The price of the same instance in a cluster."""
    faults: tuple[Fault, ...] | None
    """None without credentials, or if AWS does not answer."""

    def as_json(self) -> dict[str, Any]:
        faults = None if self.faults is None else [fault._asdict() for fault in self.faults]
        return {**self._asdict(), "faults": faults}


def read(found: Found) -> Shown:
    """Raises CloudError only for credentials that cannot be read."""
    from gpucluster.hardware import prices as ec2
    from gpucluster.sagemaker import online, prices

    target, connection = found.target, found.connect()
    name = target.instance_type.removeprefix("ml.")
    here = prices.of(name, target.region)
    faults = online.ask(connection, target) if connection.has_credentials() else None
    return Shown(target.instance_type, target.region, here and here.usd, ec2.usd(name, target.region), faults)


def show(shown: Shown) -> None:
    """The price on stdout, the rest on stderr."""
    click.echo(f"jobs on SageMaker, in {shown.region}: {price(shown)}")
    for fault in shown.faults or ():
        level = "error" if fault.certain else "warning"
        hint = f"\n  hint: {fault.hint}" if fault.hint else ""
        click.echo(f"{level}: sagemaker: {fault.key}: {fault.message}{hint}", err=True)


def price(shown: Shown) -> str:
    if shown.usd_per_hour is None:
        return f"the price of {shown.instance_type} is not known"
    beside = f", ${shown.usd_per_hour_ec2:.2f} as a node of a cluster" if shown.usd_per_hour_ec2 else ""
    return f"${shown.usd_per_hour:.2f} an hour for each {shown.instance_type}, only while a job runs{beside}"


def refusal(shown: Shown) -> GpuClusterError | None:
    certain = [fault.key for fault in shown.faults or () if fault.certain]
    if not certain:
        return None
    return CloudError(f"SageMaker would refuse every job: {', '.join(dict.fromkeys(certain))}")
