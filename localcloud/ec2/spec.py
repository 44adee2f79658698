"""Converts moto's instance to the hypervisor's `InstanceSpec`."""

from __future__ import annotations

import base64
from typing import NamedTuple

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.ec2.models.route_tables import RouteTable
from moto.ec2.models.subnets import Subnet

from localcloud.ec2 import catalogue
from localcloud.ec2.networks import interfaces
from localcloud.machines.spec import InstanceSpec, Interface


def of(instance: Instance) -> InstanceSpec:
    backend: EC2Backend = instance.ec2_backend
    primary = next(interfaces.of(instance))
    subnet: Subnet = primary.subnet
    vpc = backend.get_vpc(subnet.vpc_id)
    way = reach(backend, subnet)
    return InstanceSpec(
        instance_id=instance.id,
        image_id=instance.image_id,
        instance_type=instance.instance_type,
        hardware=catalogue.hardware(instance.instance_type),
        user_data=base64.b64decode(str(instance.user_data)) if instance.user_data else b"",
        account_id=backend.account_id,
        region=backend.region_name,
        availability_zone=subnet.availability_zone,
        vpc_id=subnet.vpc_id,
        vpc_cidr=vpc.cidr_block,
        subnet_id=subnet.id,
        subnet_cidr=subnet.cidr_block,
        public=way.public,
        internet=way.internet,
        interfaces=tuple(_interface(interface) for interface in interfaces.of(instance)),
        launch_index=int(instance.ami_launch_index),
        life_cycle=instance.lifecycle or "on-demand",
        instance_metadata_tags=instance.metadata_options.instance_metadata_tags == "enabled",
    )


def _interface(interface: object) -> Interface:
    from moto.ec2.models.elastic_network_interfaces import NetworkInterface

    assert isinstance(interface, NetworkInterface)
    return Interface(
        interface_id=interface.id,
        mac=interface.mac_address,
        private_ip=interface.private_ip_address,
        device_index=int(interface.device_index or 0),
        network_card_index=int(getattr(interface, "network_card_index", 0)),
        interface_type=interface.interface_type,
        security_group_ids=tuple(group.id for group in interface.group_set),
    )


class Reach(NamedTuple):
    public: bool  # the subnet has a route to an internet gateway
    internet: bool  # through the gateway or NAT


def reach(backend: EC2Backend, subnet: Subnet) -> Reach:
    for table in route_tables(backend, subnet):
        for route in table._routes.values():
            if route.destination_cidr_block == "0.0.0.0/0":
                public = route.gateway is not None
                return Reach(public, public or route.nat_gateway is not None)
    return Reach(False, False)


def route_tables(backend: EC2Backend, subnet: Subnet) -> list[RouteTable]:
    """The subnet's route table, or the VPC's main one."""
    tables = [table for table in backend.route_tables.values() if table.vpc_id == subnet.vpc_id]
    own = [table for table in tables if subnet.id in table._associations.values()]
    return own or [table for table in tables if table.main_association_id]
