"""The EC2 Instance Connect Endpoint that an existing VPC already has. AWS allows one for each VPC, so `up` uses it, and
pins it in cdk.context.json, where each synthesis reads it, also that of a plain `cdk deploy`."""

from __future__ import annotations

from pathlib import Path

from gpucluster.cluster import cdk
from gpucluster.config import ClusterConfig
from gpucluster.config.checks.online.account import Account
from gpucluster.config.checks.online.connect import of_others
from gpucluster.config.door import Door, key


def follow(config_file: Path, config: ClusterConfig, account: Account) -> Door | None:
    """Pins the endpoint that the VPC has now, or forgets the one that it had; returns it. Raises Refused."""
    found = of_others(config, account)
    groups = (found or {}).get("SecurityGroupIds")
    door = Door(found["InstanceConnectEndpointId"], groups[0]) if found and groups else None
    name = key(config, account.ask("sts", "get_caller_identity")["Account"])
    path = cdk.context_beside(config_file)
    entries = cdk.pinned(path)
    if door and entries.get(name) != list(door):
        cdk.write_context(path, {**entries, name: list(door)})
    elif not door and name in entries:
        cdk.write_context(path, {each: value for each, value in entries.items() if each != name})
    return door
