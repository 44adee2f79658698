"""Which AWS APIs an instance reaches, through the internet or endpoints of its VPC."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from localcloud.api import reachability
from localcloud.identity.roles import Session
from localcloud.machines.spec import Credentials
from localcloud.protocol.calls import Call


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


class Place:
    def __init__(self, ec2: Any) -> None:
        self.ec2 = ec2
        self.vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(
            VpcId=self.vpc, EnableDnsHostnames={"Value": True}
        )  # otherwise endpoints have no private names
        self.subnet = ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [self.vpc]}])["RouteTables"]
        self.table = table["RouteTableId"]
        image = ec2.describe_images()["Images"][0]["ImageId"]
        run = ec2.run_instances(ImageId=image, SubnetId=self.subnet, MinCount=1, MaxCount=1)
        credentials = Credentials("role", "ASIA", "", "", "")
        now = datetime.datetime.now(datetime.UTC)
        self.session = Session(run["Instances"][0]["InstanceId"], "role", credentials, now)

    def endpoint(self, service: str, kind: str, **more: Any) -> None:
        name = f"com.amazonaws.us-east-1.{service}"
        self.ec2.create_vpc_endpoint(VpcId=self.vpc, ServiceName=name, VpcEndpointType=kind, **more)

    def reaches(self, service: str) -> bool:
        return not reachability.missing(Call(service, "us-east-1", "Anything", "ASIA"), self.session)


@pytest.fixture
def place(ec2: Any) -> Place:
    return Place(ec2)


def test_without_a_route_or_endpoint_no_api_is_reached(place: Place) -> None:
    assert not place.reaches("ec2")
    lacks = reachability.missing(Call("ec2", "us-east-1", "DescribeTags", "ASIA"), place.session)
    assert lacks == f"{place.subnet} has no route to the internet, and {place.vpc} no endpoint of ec2 for it"


def test_a_route_to_the_internet_reaches_everything(place: Place) -> None:
    gateway = place.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    place.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=place.vpc)
    place.ec2.create_route(RouteTableId=place.table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    assert place.reaches("ec2") and place.reaches("s3")


def test_an_interface_endpoint_reaches_only_its_service(place: Place) -> None:
    place.endpoint("ssm", "Interface", SubnetIds=[place.subnet])
    assert place.reaches("ssm") and not place.reaches("ec2")


def test_an_interface_endpoint_without_private_dns_does_not_help(place: Place) -> None:
    place.endpoint("ssm", "Interface", SubnetIds=[place.subnet], PrivateDnsEnabled=False)
    assert not place.reaches("ssm")


def test_a_gateway_endpoint_counts_for_the_subnets_routes(place: Place) -> None:
    other = place.ec2.create_route_table(VpcId=place.vpc)["RouteTable"]["RouteTableId"]
    place.endpoint("s3", "Gateway", RouteTableIds=[other])
    assert not place.reaches("s3")
    place.ec2.associate_route_table(RouteTableId=other, SubnetId=place.subnet)
    assert place.reaches("s3") and not place.reaches("ec2")


def test_callers_outside_instances_reach_every_api(place: Place) -> None:
    assert not reachability.missing(Call("ec2", "us-east-1", "DescribeTags", "localcloud"), None)
