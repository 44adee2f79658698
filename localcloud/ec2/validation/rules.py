"""The rules of each action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2.validation import capacity, groups, instances, network, volumes

Rule = Callable[[EC2Backend, dict[str, Any]], None]
"""Raises a Refusal."""

RULES: dict[str, tuple[Rule, ...]] = {
    "CreateVolume": (volumes.create,),
    "ModifyVolume": (volumes.modify,),
    "DeleteVolume": (volumes.delete,),
    "DeleteSnapshot": (volumes.delete_snapshot,),
    "AttachVolume": (instances.attach_volume,),
    "CreateVpc": (network.create_vpc,),
    "DeleteVpc": (network.delete_vpc,),
    "CreateSubnet": (network.create_subnet,),
    "DeleteSubnet": (network.delete_subnet,),
    "AttachInternetGateway": (network.attach_internet_gateway,),
    "DetachInternetGateway": (network.detach_internet_gateway,),
    "CreateRoute": (network.create_route,),
    "DeleteRoute": (network.delete_route,),
    "AssociateRouteTable": (network.associate_route_table,),
    "DeleteRouteTable": (network.delete_route_table,),
    "CreateInstanceConnectEndpoint": (network.connect_endpoint,),
    "ModifyNetworkInterfaceAttribute": (network.change_interface,),
    "ModifyInstanceAttribute": (instances.not_terminated, network.change_instance),
    "ReleaseAddress": (network.release_address,),
    "AssociateAddress": (network.associate_address,),
    "CreateNatGateway": (network.create_nat_gateway,),
    "CreateNetworkInterface": (network.create_interface,),
    "DeleteNetworkInterface": (network.delete_interface,),
    "CreateVpcEndpoint": (network.create_endpoint, network.policy),
    "ModifyVpcEndpoint": (network.policy,),
    "CreateSecurityGroup": (groups.create,),
    "DeleteSecurityGroup": (groups.delete,),
    "AuthorizeSecurityGroupIngress": (groups.authorize_ingress,),
    "AuthorizeSecurityGroupEgress": (groups.authorize_egress,),
    "DescribeCapacityBlockOfferings": (capacity.offerings,),
    "CreateCapacityReservation": (capacity.reserve,),
    "ModifyCapacityReservation": (capacity.change_reservation,),
    "CreatePlacementGroup": (capacity.create_placement_group,),
    "RunInstances": (capacity.launch_template,),
    "CreateLaunchTemplate": (capacity.new_template,),
    "CreateLaunchTemplateVersion": (capacity.named_template, capacity.create_template),
    "DeleteLaunchTemplate": (capacity.named_template,),
    "CreateFleet": (capacity.create_fleet,),
    "DescribeInstanceTypes": (capacity.known_type,),
    "DescribeAvailabilityZones": (capacity.known_zones,),
    "TerminateInstances": (instances.named, instances.terminate),
    "StartInstances": (instances.named,),
    "StopInstances": (instances.named, instances.stop),
    "CreateImage": (instances.image_name,),
    "CopyImage": (instances.image_name,),
    "ModifyInstanceMetadataOptions": (instances.metadata,),
    "DisassociateRouteTable": (network.disassociate_route_table,),
    "ModifyVpcAttribute": (network.one_attribute,),
    "ModifySubnetAttribute": (network.one_attribute,),
    "RebootInstances": (instances.named,),
    "DescribeInstanceTopology": (instances.topology,),
}
