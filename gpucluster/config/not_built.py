"""Keys that are part of cluster.yaml and validated, and whose building comes later. Building one removes its line."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, HeadNfs

BUILT_FRAMEWORKS = ("torch", "horovod")


def not_built(config: ClusterConfig) -> Iterator[Finding]:
    for path, what in _asked_for(config):
        yield Finding(
            path,
            f"{what} is not built yet",
            "`up` refuses it; `validate`, `render` and `submit --dry-run` do not",
            "warning",
        )


def _asked_for(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    yield from _network(config)
    yield from _partitions(config)
    if config.parameter_servers:
        yield ("parameter_servers",), "a partition of parameter servers"
    for index, storage in enumerate(config.storage):
        if not isinstance(storage, HeadNfs):
            yield ("storage", index, "type"), storage.type
    for index, framework in enumerate(config.software.frameworks):
        if framework not in BUILT_FRAMEWORKS:
            yield ("software", "frameworks", index), framework
    if config.accounting != "off":
        yield ("accounting",), f"accounting: {config.accounting}"
    if config.budget:
        yield ("budget",), "a budget"
    for key in ("kms_key_arn", "permissions_boundary_arn"):
        if getattr(config.security, key):
            yield ("security", key), key


def _network(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    network = config.network
    for key, what in (
        ("vpc_id", "an existing VPC"),
        ("subnet_id", "an existing subnet"),
        ("ssh_from", "SSH without the endpoint"),
    ):
        if getattr(network, key):
            yield ("network", key), what
    if network.internet != "nat":
        yield ("network", "internet"), f"internet: {network.internet}"


def _partitions(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    for index, partition in enumerate(config.partitions):
        path = ("partitions", index)
        if partition.purchase != "on-demand":
            yield (*path, "purchase"), f"purchase: {partition.purchase}"
        if partition.image:
            yield (*path, "image"), "an image per partition"
