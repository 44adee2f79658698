"""AWS::EC2: route tables, routes and their associations with subnets."""

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
