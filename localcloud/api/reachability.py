"""Whether an instance reaches an AWS API: by a route to the internet, or by a VPC endpoint of the service.

On AWS a call without either waits until its connection times out. Here it is refused at once, with a status that
clients treat as a network failure, and the API log names it EndpointUnreachable.
"""

from __future__ import annotations

from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance

from localcloud.ec2 import lifecycle, spec
from localcloud.ec2.networks import interfaces
from localcloud.identity.roles import Session
from localcloud.protocol.calls import Call

_GATEWAY = ("s3", "dynamodb")


def missing(call: Call, session: Session | None) -> str:
    """What an instance lacks for a call; empty if it reaches the service. Callers hold the cloud's lock."""
    instance = lifecycle.find(session.instance_id) if session else None
    if instance is None or instance.state == "terminated" or not call.service:
        return ""
    backend: EC2Backend = instance.ec2_backend
    subnet = next(interfaces.of(instance)).subnet
    if spec.reach(backend, subnet).internet or _has_endpoint(backend, instance, subnet, call.service):
        return ""
    return f"{subnet.id} has no route to the internet, and {subnet.vpc_id} no endpoint of {call.service} for it"


def _has_endpoint(backend: EC2Backend, instance: Instance, subnet: Any, service: str) -> bool:
    for endpoint in backend.vpc_end_points.values():
        if endpoint.vpc_id != instance.vpc_id or endpoint.state == "deleted":
            continue
        if endpoint.service_name.rpartition(".")[2] != service:
            continue
        if str(endpoint.vpc_endpoint_type).lower() == "interface":
            if endpoint.private_dns_enabled is not False:
                return True
        elif service in _GATEWAY and {table.id for table in spec.route_tables(backend, subnet)} & set(
            endpoint.route_table_ids
        ):
            return True
    return False
