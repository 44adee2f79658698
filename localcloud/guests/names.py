"""Names inside a VPC: Route 53's private zones, the instances' own names, those of RDS, FSx and EFS."""

from __future__ import annotations

import ipaddress
import re

from moto.ec2.models import EC2Backend
from moto.route53.models import FakeZone, route53_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.databases import hosts, truststore
from localcloud.ec2 import lifecycle
from localcloud.filesystems import servers
from localcloud.guests import public_names
from localcloud.training import hosts as training_hosts

_INSTANCE_NAME = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)\.(?:ec2|([a-z0-9-]+)\.compute)\.internal")
_CNAME_HOPS = 8


def resolve(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    """See `Metadata.resolve`."""
    answer = _from_zones(vpc_id, name, record_type, _CNAME_HOPS)
    if answer is None:
        answer = _from_instances(vpc_id, name, record_type)
    if answer is None:
        answer = truststore.resolve(name, record_type)
    if answer is None:
        answer = servers.resolve(vpc_id, name, record_type)
    if answer is None:
        answer = training_hosts.resolve(vpc_id, name, record_type)
    if answer is None:
        answer = hosts.resolve(vpc_id, name, record_type)
    return answer if answer is not None else public_names.resolve(name, record_type)


def _from_zones(vpc_id: str, name: str, record_type: str, hops: int) -> list[str] | None:
    zone = _zone_of(vpc_id, name)
    if zone is None:
        return None
    records = {str(record.type): record.records for record in zone.rrsets if _plain(record.name) == name}
    if not records:
        wild = "*." + name.partition(".")[2]
        records = {str(record.type): record.records for record in zone.rrsets if _plain(record.name) == wild}
    if record_type not in records and "CNAME" in records and hops:
        target = _plain(records["CNAME"][0])
        answer = _from_zones(vpc_id, target, record_type, hops - 1)
        return answer if answer is not None else _from_instances(vpc_id, target, record_type) or []
    return [_text(value, record_type) for value in records.get(record_type, [])]


def _zone_of(vpc_id: str, name: str) -> FakeZone | None:
    """The most specific private zone of the VPC that holds the name."""
    holding = [
        zone
        for zone in route53_backends[ACCOUNT_ID]["aws"].zones.values()
        if zone.private_zone
        and any(vpc.get("vpc_id") == vpc_id for vpc in zone.vpcs)
        and (name == _plain(zone.name) or name.endswith("." + _plain(zone.name)))
    ]
    return max(holding, key=lambda zone: len(zone.name), default=None)


def _plain(name: str) -> str:
    """Lower case, no final dot, and Route 53's escape for a star undone."""
    return name.lower().rstrip(".").replace("\\052", "*")


def _text(value: str, record_type: str) -> str:
    """TXT values without their quotes; everything else as it was written."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', value)) or value if record_type == "TXT" else value


def _from_instances(vpc_id: str, name: str, record_type: str) -> list[str] | None:
    found = _INSTANCE_NAME.fullmatch(name)
    if not found and not name.endswith(".in-addr.arpa"):
        return None
    backend = next((b for b in lifecycle.all_backends() if vpc_id in b.vpcs), None)
    if backend is None:
        return None
    network = ipaddress.ip_network(backend.vpcs[vpc_id].cidr_block)
    digits = found.groups()[:4] if found else tuple(reversed(name.removesuffix(".in-addr.arpa").split(".")))
    try:
        address = ipaddress.ip_address(".".join(digits))
    except ValueError:
        return None
    if address not in network or (found and name != instance_name(backend, str(address))):
        return None
    if found:
        return [str(address)] if record_type == "A" else []
    return [instance_name(backend, str(address)) + "."] if record_type == "PTR" else []


def instance_name(backend: EC2Backend, address: str) -> str:
    """`ip-10-0-1-2.ec2.internal`, or with the region everywhere but in us-east-1."""
    domain = "ec2" if backend.region_name == "us-east-1" else f"{backend.region_name}.compute"
    return f"ip-{address.replace('.', '-')}.{domain}.internal"
