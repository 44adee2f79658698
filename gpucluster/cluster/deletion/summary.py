"""Lists what a deletion deletes and keeps, to read before confirming."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config import ClusterConfig


def what_goes_and_stays(config: ClusterConfig, *, compute_nodes: int, volumes: str, cloud_ends: bool) -> Iterator[str]:
    """`config`: as deployed. `volumes`: ids of the head node's volumes. `cloud_ends`: whether the cluster is the reason
    for its local cloud."""
    yield f"{config.name} in {config.region}, to be deleted:"
    yield from (f"  {line}" for line in what_goes(config, compute_nodes=compute_nodes))
    if cloud_ends:
        yield "nothing remains: the local cloud ends with the cluster"
        return
    yield "what remains:"
    yield from (f"  {line}" for line in what_stays(config, volumes=volumes))


def what_goes(config: ClusterConfig, *, compute_nodes: int) -> Iterator[str]:
    head = config.head_node
    yield f"{compute_nodes} compute node{'s' if compute_nodes != 1 else ''}, with the jobs on them"
    kept = "/home, job folders, " if config.volume_mount == "/home" else ""
    volume = f"volume of {head.volume_gib} GiB: {kept}Slurm's state"
    yield f"the head node{'' if head.on_delete == 'retain' else f' and its {volume}'}"
    yield from (storage.goes() for storage in config.storage if storage.deleted_with_cluster is True)
    if config.accounting == "rds":
        yield "the accounting database on RDS"
    network = "" if network_stays(config) else "network, "
    yield f"its {network}security groups, roles, parameters, DNS zone, logs in CloudWatch and alarms"


def what_stays(config: ClusterConfig, *, volumes: str) -> Iterator[str]:
    """Resources that remain, and are billed until you delete them."""
    head = config.head_node
    if head.on_delete == "retain":
        yield f"the head node's volume {volumes} (head_node.on_delete: retain)"
    if head.on_delete == "snapshot":
        yield f"a final snapshot of the volume {volumes} (head_node.on_delete: snapshot)"
    if head.snapshot_days:
        yield f"its daily snapshots: aws ec2 describe-snapshots --filters Name=volume-id,Values={volumes}"
    if config.accounting == "rds" and head.on_delete != "delete":
        yield "a final snapshot of the accounting database"
    yield from (storage.stays() for storage in config.storage if storage.deleted_with_cluster is False)
    if network_stays(config):
        yield "its VPC and one subnet, which FSx's network interfaces use"
    yield "CDK's own stack (CDKToolkit) with the uploaded bundles, shared by all CDK apps"


def network_stays(config: ClusterConfig) -> bool:
    """Whether the stack's VPC outlives it."""
    kept = any(each.deleted_with_cluster is False for each in config.lustre)
    return kept and config.network.vpc_id is None
