"""Clusters that `up` created when the cluster file had another name or region. They run on and cost money."""

from __future__ import annotations

from pathlib import Path

from gpucluster.cluster import aws, local_cloud, register, stack
from gpucluster.config import ClusterConfig
from gpucluster.errors import CloudError


def forget_deleted(config_file: Path, config: ClusterConfig, account: str) -> list[register.Entry]:
    """The clusters of this file that are not the present one and were not deleted. Those that were deleted in another
    way than with `down` are removed from the register. Of another account nobody here knows."""
    here = (config.name, config.region, account)
    others = [entry for entry in register.read(config_file) if entry.place != here]
    return [entry for entry in others if not _forgotten(config_file, config, entry, account)]


def _forgotten(config_file: Path, config: ClusterConfig, entry: register.Entry, account: str) -> bool:
    try:
        gone = entry.account == account and not _there(config_file, config, entry)
    except CloudError:  # not known
        return False
    if gone:
        register.remove(config_file, name=entry.name, region=entry.region, account=entry.account)
    return gone


def _there(config_file: Path, config: ClusterConfig, entry: register.Entry) -> bool:
    record = local_cloud.read(config_file, entry.name)
    if record and not local_cloud.running_at(record.endpoint_url):
        return False  # it ended with its cloud
    then = config.model_copy(update={"name": entry.name, "region": entry.region})
    with aws.aws_errors():
        return stack.status(aws.connect(then, config_file).client("cloudformation"), entry.name) is not None


def words(entry: register.Entry) -> str:
    return (
        f"{entry} still exists and costs money: `gpucluster up` created it from this file. To delete it, set "
        f"name: {entry.name} and region: {entry.region} and run `gpucluster down`"
    )
