"""Interface endpoints: AWS's rules, and network interfaces that are created and deleted with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import Place, code

SSM = "com.amazonaws.us-east-1.ssm"


@pytest.fixture
def names(place: Place) -> Iterator[None]:
    """Sets the VPC's DNS attributes, which endpoints with private DNS names require."""
    place.ec2.modify_vpc_attribute(VpcId=place.vpc_id, EnableDnsHostnames={"Value": True})
    yield
    place.ec2.modify_vpc_attribute(VpcId=place.vpc_id, EnableDnsHostnames={"Value": False})


def make(place: Place, service: str = SSM, **more: Any) -> dict[str, Any]:
    wanted = {"VpcEndpointType": "Interface", "SubnetIds": [place.subnet_id], "SecurityGroupIds": [place.group_id]}
    made = place.ec2.create_vpc_endpoint(VpcId=place.vpc_id, ServiceName=service, **(wanted | more))
    return dict(made["VpcEndpoint"])


def test_the_endpoints_interface_is_created_and_deleted_with_it(place: Place, names: None) -> None:
    endpoint = make(place, PrivateDnsEnabled=True)
    ids = endpoint["NetworkInterfaceIds"]
    (interface,) = place.ec2.describe_network_interfaces(NetworkInterfaceIds=ids)["NetworkInterfaces"]
    assert interface["SubnetId"] == place.subnet_id
    assert interface["PrivateIpAddress"].startswith("10.0.")
    assert [group["GroupId"] for group in interface["Groups"]] == [place.group_id]
    with pytest.raises(ClientError, match="conflicting DNS domain"):
        make(place, PrivateDnsEnabled=True)
    place.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])
    found = place.ec2.describe_network_interfaces(Filters=[{"Name": "network-interface-id", "Values": ids}])
    assert found["NetworkInterfaces"] == []


def test_wrong_endpoints_are_refused(place: Place) -> None:
    with pytest.raises(ClientError, match="enableDnsHostnames") as error:
        make(place, PrivateDnsEnabled=True)
    assert code(error) == "InvalidParameter"
    for service in ("com.amazonaws.eu-west-1.ssm", "ssm"):
        with pytest.raises(ClientError) as error:
            make(place, service, PrivateDnsEnabled=False)
        assert code(error) == "InvalidServiceName"
