"""AWS::EC2: VPC, subnets, gateways, endpoints, flow logs."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.resources.ec2 import Plain, retag, tag_specifications
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    resource,
    without,
)


@resource("AWS::EC2::VPC", updatable="EnableDnsHostnames EnableDnsSupport Tags", delete="ec2 delete_vpc VpcId")
class Vpc(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "EnableDnsHostnames", "EnableDnsSupport", "Tags")
        specifications = tag_specifications(call, properties, "vpc")
        vpc = call.api("ec2", "create_vpc", given, TagSpecifications=specifications)["Vpc"]
        call.announce(vpc["VpcId"])
        self._set_dns(call, vpc["VpcId"], properties)
        return self._made(call, vpc["VpcId"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self._set_dns(call, physical_id, new)
        retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def _set_dns(self, call: Call, vpc_id: str, properties: Properties) -> None:
        for name in ("EnableDnsSupport", "EnableDnsHostnames"):  # support first: hostnames need it
            if name in properties:
                call.api("ec2", "modify_vpc_attribute", {name: {"Value": properties[name]}}, VpcId=vpc_id)

    def _made(self, call: Call, vpc_id: str) -> Made:
        vpc = call.api("ec2", "describe_vpcs", VpcIds=[vpc_id])["Vpcs"][0]
        of_vpc = [{"Name": "vpc-id", "Values": [vpc_id]}]
        default = [*of_vpc, {"Name": "group-name", "Values": ["default"]}]
        groups = call.api("ec2", "describe_security_groups", Filters=default)["SecurityGroups"]
        acls = call.api("ec2", "describe_network_acls", Filters=of_vpc)["NetworkAcls"]
        attributes = {
            "VpcId": vpc_id,
            "CidrBlock": vpc["CidrBlock"],
            "CidrBlockAssociations": [item["AssociationId"] for item in vpc.get("CidrBlockAssociationSet", [])],
            "DefaultSecurityGroup": next((group["GroupId"] for group in groups), ""),
            "DefaultNetworkAcl": next((acl["NetworkAclId"] for acl in acls if acl["IsDefault"]), ""),
            "Ipv6CidrBlocks": [],
        }
        return Made(vpc_id, attributes)


@resource("AWS::EC2::Subnet", updatable="MapPublicIpOnLaunch Tags", delete="ec2 delete_subnet SubnetId")
class Subnet(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "MapPublicIpOnLaunch", "Tags")
        specifications = tag_specifications(call, properties, "subnet")
        subnet = call.api("ec2", "create_subnet", given, TagSpecifications=specifications)["Subnet"]
        call.announce(subnet["SubnetId"])
        self._set_public(call, subnet["SubnetId"], properties)
        return self._made(call, subnet["SubnetId"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self._set_public(call, physical_id, {"MapPublicIpOnLaunch": False, **new})
        retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def _set_public(self, call: Call, subnet_id: str, properties: Properties) -> None:
        if "MapPublicIpOnLaunch" in properties:
            public = {"Value": properties["MapPublicIpOnLaunch"]}
            call.api("ec2", "modify_subnet_attribute", SubnetId=subnet_id, MapPublicIpOnLaunch=public)

    def _made(self, call: Call, subnet_id: str) -> Made:
        subnet = call.api("ec2", "describe_subnets", SubnetIds=[subnet_id])["Subnets"][0]
        names = ("SubnetId", "VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        attributes = {name: subnet.get(name, "") for name in names}
        of_subnet = [{"Name": "association.subnet-id", "Values": [subnet_id]}]
        acls = call.api("ec2", "describe_network_acls", Filters=of_subnet)["NetworkAcls"]
        entries = [entry for acl in acls for entry in acl["Associations"] if entry["SubnetId"] == subnet_id]
        attributes["NetworkAclAssociationId"] = entries[0]["NetworkAclAssociationId"] if entries else ""
        return Made(subnet_id, attributes)


@resource("AWS::EC2::InternetGateway", updatable="Tags", delete="ec2 delete_internet_gateway InternetGatewayId")
class InternetGateway(Plain):
    noun, member, id_name = "internet_gateway", "InternetGateway", "InternetGatewayId"


@resource("AWS::EC2::VPCGatewayAttachment")
class VpcGatewayAttachment(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        method = "attach_vpn_gateway" if "VpnGatewayId" in properties else "attach_internet_gateway"
        call.api("ec2", method, properties)
        kind = "VGW" if "VpnGatewayId" in properties else "IGW"
        return Made(f"{kind}|{properties['VpcId']}", {"AttachmentType": kind})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        method = "detach_vpn_gateway" if "VpnGatewayId" in properties else "detach_internet_gateway"
        call.api("ec2", method, properties)


@resource("AWS::EC2::NatGateway", updatable="Tags")
class NatGateway(Plain):
    id_name = "NatGatewayId"

    def create(self, call: Call, properties: Properties) -> Made:
        specifications = tag_specifications(call, properties, "natgateway")
        given = without(properties, "Tags")
        gateway_id = call.api("ec2", "create_nat_gateway", given, TagSpecifications=specifications)["NatGateway"][
            "NatGatewayId"
        ]
        call.announce(gateway_id)
        call.wait(lambda: self._state(call, gateway_id) == "available", f"{gateway_id} becoming available")
        return self.made(gateway_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("ec2", "delete_nat_gateway", NatGatewayId=physical_id)
        call.wait(lambda: self._state(call, physical_id) == "deleted", f"{physical_id} going away")

    def _state(self, call: Call, gateway_id: str) -> str:
        """Raises AWS's message if the gateway failed; a missing gateway counts as deleted."""
        found = call.if_there("ec2", "describe_nat_gateways", NatGatewayIds=[gateway_id]).get("NatGateways")
        return str(found[0]["State"]) if found else "deleted"


@resource("AWS::EC2::EIP", updatable="InstanceId Tags")
class ElasticIp(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        specifications = tag_specifications(call, properties, "elastic-ip")
        given = {"Domain": "vpc", **without(properties, "InstanceId", "Tags")}
        address = call.api("ec2", "allocate_address", given, TagSpecifications=specifications)
        call.announce(address["PublicIp"])
        return self._associate(call, address, properties)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        address = self._address(call, physical_id)
        if old.get("InstanceId") and address.get("AssociationId"):
            call.api("ec2", "disassociate_address", AssociationId=address["AssociationId"])
        retag(call, address["AllocationId"], old, new)
        return self._associate(call, address, new)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        address = self._address(call, physical_id)
        if address.get("AssociationId"):
            call.api("ec2", "disassociate_address", AssociationId=address["AssociationId"])
        call.api("ec2", "release_address", AllocationId=address["AllocationId"])

    def _address(self, call: Call, public_ip: str) -> Any:
        return call.api("ec2", "describe_addresses", PublicIps=[public_ip])["Addresses"][0]

    def _associate(self, call: Call, address: Any, properties: Properties) -> Made:
        if properties.get("InstanceId"):
            call.api(
                "ec2", "associate_address", AllocationId=address["AllocationId"], InstanceId=properties["InstanceId"]
            )
        attributes = {"AllocationId": address["AllocationId"], "PublicIp": address["PublicIp"]}
        return Made(address["PublicIp"], attributes)


@resource(
    "AWS::EC2::VPCEndpoint",
    updatable="PolicyDocument PrivateDnsEnabled RouteTableIds SecurityGroupIds SubnetIds Tags",
)
class VpcEndpoint(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        specifications = tag_specifications(call, properties, "vpc-endpoint")
        given = without(properties, "Tags")
        endpoint = call.api("ec2", "create_vpc_endpoint", given, TagSpecifications=specifications)["VpcEndpoint"]
        return self._made(endpoint)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        changes: dict[str, Any] = {"PrivateDnsEnabled": new.get("PrivateDnsEnabled")}
        if "PolicyDocument" in new:
            changes["PolicyDocument"] = new["PolicyDocument"]
        for name in ("RouteTableIds", "SubnetIds", "SecurityGroupIds"):
            before, after = set(old.get(name) or []), set(new.get(name) or [])
            changes[f"Add{name}"] = sorted(after - before) or None
            changes[f"Remove{name}"] = sorted(before - after) or None
        call.api("ec2", "modify_vpc_endpoint", changes, VpcEndpointId=physical_id)
        retag(call, physical_id, old, new)
        return self._made(call.api("ec2", "describe_vpc_endpoints", VpcEndpointIds=[physical_id])["VpcEndpoints"][0])

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("ec2", "delete_vpc_endpoints", VpcEndpointIds=[physical_id])
        call.wait(lambda: self._gone(call, physical_id), f"{physical_id} going away")

    def _gone(self, call: Call, endpoint_id: str) -> bool:
        found = call.if_there("ec2", "describe_vpc_endpoints", VpcEndpointIds=[endpoint_id])
        return all(endpoint.get("State") == "deleted" for endpoint in found.get("VpcEndpoints", ()))

    def _made(self, endpoint: Any) -> Made:
        entries = [f"{item.get('HostedZoneId', '')}:{item['DnsName']}" for item in endpoint.get("DnsEntries") or []]
        attributes = {
            "Id": endpoint["VpcEndpointId"],
            "DnsEntries": entries,
            "NetworkInterfaceIds": endpoint.get("NetworkInterfaceIds") or [],
            "CreationTimestamp": str(endpoint.get("CreationTimestamp", "")),
        }
        return Made(endpoint["VpcEndpointId"], attributes)


@resource("AWS::EC2::FlowLog", updatable="Tags", delete="ec2 delete_flow_logs FlowLogIds")
class FlowLog(Plain):
    attribute = "Id"

    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "ResourceId", "Tags")
        specifications = tag_specifications(call, properties, "vpc-flow-log")
        made = call.api(
            "ec2", "create_flow_logs", given, ResourceIds=[properties["ResourceId"]], TagSpecifications=specifications
        )
        return self.made(made["FlowLogIds"][0])
