"""The instance metadata of one instance: a tree of paths and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from localcloud.machines.networks.addressing import host_name, search_domain
from localcloud.machines.spec import Credentials, InstanceSpec, Interface, Metadata

DOCUMENT_TIME = "2024-01-01T00:00:00Z"


def listing_or_leaf(tree: Mapping[str, str], path: str) -> str | None:
    """The text at `path`, or the names below it (a folder's ends with a slash), or None."""
    key = path.strip("/")
    if key in tree:
        return tree[key]
    prefix = f"{key}/" if key else ""
    below = (name[len(prefix) :] for name in tree if name.startswith(prefix))
    names = {name.split("/", 1)[0] + ("/" if "/" in name else "") for name in below}
    return "\n".join(sorted(names)) if names else None


def tree(spec: InstanceSpec, metadata: Metadata) -> dict[str, str]:
    """Everything under /latest/, in its current state: tags, credentials and announcements are read at each request."""
    leaves = {f"meta-data/{path}": text for path, text in (_fixed(spec) | _live(spec, metadata)).items()}
    leaves["dynamic/instance-identity/document"] = json.dumps(_document(spec), indent=2)
    if spec.user_data:
        leaves["user-data"] = spec.user_data.decode("latin-1")
    return leaves


def _fixed(spec: InstanceSpec) -> dict[str, str]:
    primary = spec.interfaces[0]
    address = primary.private_ip or ""
    name = f"{host_name(address)}.{search_domain(spec.region)}"
    leaves = {
        "ami-id": spec.image_id,
        "ami-launch-index": str(spec.launch_index),
        "ami-manifest-path": "(unknown)",
        "hostname": name,
        "instance-action": "none",
        "instance-id": spec.instance_id,
        "instance-life-cycle": spec.life_cycle,
        "instance-type": spec.instance_type,
        "local-hostname": name,
        "local-ipv4": address,
        "mac": primary.mac,
        "placement/availability-zone": spec.availability_zone,
        "placement/region": spec.region,
        "profile": "default-hvm",
        "reservation-id": f"r-{spec.instance_id[2:]}",
        "security-groups": "\n".join(primary.security_group_ids),
        "services/domain": "amazonaws.com",
        "services/partition": "aws",
    }
    for interface in spec.interfaces:
        leaves |= _interface(spec, interface)
    return leaves


def _interface(spec: InstanceSpec, interface: Interface) -> dict[str, str]:
    """Without vpc-id, cloud-init assumes an instance of EC2 Classic and reads everything twice."""
    prefix = f"network/interfaces/macs/{interface.mac}"
    facts = {
        "device-number": str(interface.device_index),
        "interface-id": interface.interface_id,
        "mac": interface.mac,
        "network-card": str(interface.network_card_index),
        "owner-id": spec.account_id,
        "security-group-ids": "\n".join(interface.security_group_ids),
        "subnet-id": spec.subnet_id,
        "subnet-ipv4-cidr-block": spec.subnet_cidr,
        "vpc-id": spec.vpc_id,
        "vpc-ipv4-cidr-block": spec.vpc_cidr,
        "vpc-ipv4-cidr-blocks": spec.vpc_cidr,
    }
    if interface.private_ip:
        facts["local-ipv4s"] = interface.private_ip
        facts["local-hostname"] = f"{host_name(interface.private_ip)}.{search_domain(spec.region)}"
    return {f"{prefix}/{key}": value for key, value in facts.items()}


def _live(spec: InstanceSpec, metadata: Metadata) -> dict[str, str]:
    leaves: dict[str, str] = {}
    if spec.instance_metadata_tags:
        leaves |= {f"tags/instance/{key}": value for key, value in metadata.tags(spec.instance_id).items()}
    if arn := metadata.instance_profile_arn(spec.instance_id):
        leaves["iam/info"] = json.dumps({"Code": "Success", "LastUpdated": DOCUMENT_TIME, "InstanceProfileArn": arn})
    if credentials := metadata.credentials(spec.instance_id):
        leaves[f"iam/security-credentials/{credentials.role_name}"] = json.dumps(_credentials(credentials), indent=2)
    if events := metadata.scheduled_events(spec.instance_id):
        leaves["events/maintenance/scheduled"] = json.dumps(events, indent=2)
    if time := metadata.spot_interruption(spec.instance_id):
        leaves["spot/instance-action"] = json.dumps({"action": "terminate", "time": time})
        leaves["spot/termination-time"] = time
    return leaves


def _credentials(credentials: Credentials) -> dict[str, str]:
    return {
        "Code": "Success",
        "LastUpdated": DOCUMENT_TIME,
        "Type": "AWS-HMAC",
        "AccessKeyId": credentials.access_key_id,
        "SecretAccessKey": credentials.secret_access_key,
        "Token": credentials.session_token,
        "Expiration": credentials.expiration,
    }


def _document(spec: InstanceSpec) -> dict[str, str | None]:
    return {
        "accountId": spec.account_id,
        "architecture": "x86_64",
        "availabilityZone": spec.availability_zone,
        "imageId": spec.image_id,
        "instanceId": spec.instance_id,
        "instanceType": spec.instance_type,
        "kernelId": None,
        "pendingTime": DOCUMENT_TIME,
        "privateIp": spec.interfaces[0].private_ip,
        "ramdiskId": None,
        "region": spec.region,
        "version": "2017-09-30",
    }
