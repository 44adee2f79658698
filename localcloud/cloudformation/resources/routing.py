"""AWS::EC2: route tables, routes, network ACLs and their associations with subnets."""

from __future__ import annotations

from localcloud.cloudformation.resources.ec2 import Plain
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties, only, resource


@resource("AWS::EC2::RouteTable", updatable="Tags", delete="ec2 delete_route_table RouteTableId")
class RouteTable(Plain):
    noun, member, id_name = "route_table", "RouteTable", "RouteTableId"


_DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")


@resource(
    "AWS::EC2::Route",
    updatable="GatewayId NatGatewayId InstanceId NetworkInterfaceId TransitGatewayId VpcEndpointId "
    "VpcPeeringConnectionId EgressOnlyInternetGatewayId CarrierGatewayId LocalGatewayId",
)
class Route(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        call.api("ec2", "create_route", properties)
        destination = next(str(properties[name]) for name in _DESTINATIONS if name in properties)
        return Made(f"{properties['RouteTableId']}|{destination}", {"CidrBlock": destination})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("ec2", "replace_route", new)
        return Made(physical_id, {"CidrBlock": physical_id.split("|")[1]})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("ec2", "delete_route", only(properties, "RouteTableId", *_DESTINATIONS))


@resource(
    "AWS::EC2::SubnetRouteTableAssociation",
    updatable="RouteTableId",
    delete="ec2 disassociate_route_table AssociationId",
)
class SubnetRouteTableAssociation(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        association = call.api("ec2", "associate_route_table", properties)["AssociationId"]
        return Made(association, {"Id": association})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        replaced = call.api(
            "ec2", "replace_route_table_association", AssociationId=physical_id, RouteTableId=new["RouteTableId"]
        )
        return Made(replaced["NewAssociationId"], {"Id": replaced["NewAssociationId"]})


@resource("AWS::EC2::NetworkAcl", updatable="Tags", delete="ec2 delete_network_acl NetworkAclId")
class NetworkAcl(Plain):
    noun, member, id_name, attribute = "network_acl", "NetworkAcl", "NetworkAclId", "Id"


@resource("AWS::EC2::NetworkAclEntry", updatable="CidrBlock Icmp Ipv6CidrBlock PortRange Protocol RuleAction")
class NetworkAclEntry(Handler):
    def _given(self, properties: Properties) -> dict[str, object]:
        given = {key: value for key, value in properties.items() if key != "Icmp"}
        return {"Egress": False, **given, "IcmpTypeCode": properties.get("Icmp")}

    def create(self, call: Call, properties: Properties) -> Made:
        call.api("ec2", "create_network_acl_entry", self._given(properties))
        return Made(call.name())

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("ec2", "replace_network_acl_entry", self._given(new))
        return Made(physical_id)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        given = {"Egress": False, **only(properties, "NetworkAclId", "RuleNumber", "Egress")}
        call.api("ec2", "delete_network_acl_entry", given)


@resource("AWS::EC2::SubnetNetworkAclAssociation")
class SubnetNetworkAclAssociation(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        association = self._move(call, properties["SubnetId"], properties["NetworkAclId"])
        return Made(association, {"AssociationId": association})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        subnet = call.api("ec2", "describe_subnets", SubnetIds=[properties["SubnetId"]])["Subnets"][0]
        default = [{"Name": "vpc-id", "Values": [subnet["VpcId"]]}, {"Name": "default", "Values": ["true"]}]
        acls = call.api("ec2", "describe_network_acls", Filters=default)["NetworkAcls"]
        self._move(call, properties["SubnetId"], acls[0]["NetworkAclId"])

    def _move(self, call: Call, subnet_id: str, acl_id: str) -> str:
        """A subnet always has one ACL, so another one replaces the association."""
        of_subnet = [{"Name": "association.subnet-id", "Values": [subnet_id]}]
        acls = call.api("ec2", "describe_network_acls", Filters=of_subnet)["NetworkAcls"]
        current = next(entry for acl in acls for entry in acl["Associations"] if entry["SubnetId"] == subnet_id)
        replaced = call.api(
            "ec2",
            "replace_network_acl_association",
            AssociationId=current["NetworkAclAssociationId"],
            NetworkAclId=acl_id,
        )
        return str(replaced["NewAssociationId"])
