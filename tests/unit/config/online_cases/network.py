from __future__ import annotations

from typing import Any

from validator_cases.case import cluster

from online_cases.case import Answers, Online, deployed

NETWORK = {"vpc_id": "vpc-11111111", "subnet_id": "subnet-11111111"}
THERE = cluster(availability_zone="us-east-1a", network=NETWORK)
CLOSED = cluster(
    availability_zone="us-east-1a",
    network={**NETWORK, "internet": "none"},
    software={"image": "ami-0123456789abcdef0"},
)


def vpc(**keys: Any) -> Answers:
    return {"ec2 describe_vpcs": {"Vpcs": [{"VpcId": "vpc-11111111", "OwnerId": "123456789012", **keys}]}}


VPC = vpc()


def blocks(*cidrs: str, state: str = "associated") -> Answers:
    found = [{"CidrBlock": cidr, "CidrBlockState": {"State": state}} for cidr in cidrs]
    return vpc(CidrBlock=cidrs[0], CidrBlockAssociationSet=found, DhcpOptionsId="dopt-1")


def dns(*servers: str) -> Answers:
    """As in the AWS CLI's examples of describe-dhcp-options."""
    domain = {"Key": "domain-name", "Values": [{"Value": "us-east-2.compute.internal"}]}
    named = [{"Key": "domain-name-servers", "Values": [{"Value": each} for each in servers]}] if servers else []
    options = {"DhcpOptionsId": "dopt-1", "DhcpConfigurations": [domain, *named]}
    return {**blocks("10.1.0.0/16", "10.7.0.0/16"), "ec2 describe_dhcp_options": {"DhcpOptions": [options]}}


def attribute(hostnames: bool) -> Answers:
    return {
        "ec2 describe_vpc_attribute": {"EnableDnsSupport": {"Value": True}, "EnableDnsHostnames": {"Value": hostnames}}
    }


def zones(name: str) -> Answers:
    found = {"HostedZoneId": "Z1", "Name": name, "Owner": {"OwningAccount": "123456789012"}}
    return {"route53 list_hosted_zones_by_vpc": {"HostedZoneSummaries": [found], "MaxItems": "100"}}


def subnet(**keys: Any) -> Answers:
    found = {
        "SubnetId": "subnet-11111111",
        "VpcId": "vpc-11111111",
        "AvailabilityZone": "us-east-1a",
        "AvailableIpAddressCount": 4091,
        "CidrBlock": "10.0.16.0/20",
        **keys,
    }
    return {"ec2 describe_subnets": {"Subnets": [found]}}


def endpoints(*more: str) -> Answers:
    names = [f"com.amazonaws.us-east-1.{name}" for name in ("ec2", "ssm", "secretsmanager", "s3", *more)]
    found = [
        {
            "VpcId": "vpc-11111111",
            "ServiceName": name,
            "State": "available",
            "VpcEndpointType": "Gateway" if name.endswith("s3") else "Interface",
            "PrivateDnsEnabled": not name.endswith("s3"),
        }
        for name in ("com.amazonaws.route53", *names)
    ]
    return {"ec2 describe_vpc_endpoints": {"VpcEndpoints": found}}


def services(*without: str) -> Answers:
    """All that is asked for, `without` in another zone alone. As EC2's reference has it, a ServiceDetail."""
    names = ("ec2", "ssm", "secretsmanager", "logs", "monitoring")
    return {
        "ec2 describe_vpc_endpoint_services": {
            "ServiceDetails": [
                {
                    "ServiceName": f"com.amazonaws.us-east-1.{name}",
                    "AvailabilityZones": ["us-east-1b"] if name in without else ["us-east-1a", "us-east-1b"],
                }
                for name in names
            ]
        }
    }


def groups(vpc_id: str) -> Answers:
    return {**VPC, "ec2 describe_security_groups": {"SecurityGroups": [{"GroupId": "sg-11111111", "VpcId": vpc_id}]}}


GROUPED = {**THERE, "head_node": {"security_groups": ["sg-11111111"]}}

CASES: dict[str, Online | list[Online]] = {
    "endpoint-services-in-zone": Online(
        cluster(network={"internet": "none"}, software={"image": "ami-0123456789abcdef0"}),
        key="network.internet",
        says="us-east-1a offers no endpoints of com.amazonaws.us-east-1.logs",
        fails=services("logs"),
        passes=services(),
    ),
    "security-group-exists": Online(
        GROUPED,
        key="head_node.security_groups[0]",
        says="the account sees no sg-11111111 in us-east-1",
        fails={"ec2 describe_security_groups": "InvalidGroup.NotFound"},
        passes=groups("vpc-11111111"),
    ),
    "security-groups-in-vpc": Online(
        GROUPED,
        key="head_node.security_groups[0]",
        says="sg-11111111 is in vpc-22222222, not in vpc-11111111",
        fails=groups("vpc-22222222"),
        passes=groups("vpc-11111111"),
    ),
    "vpc-exists": Online(
        THERE,
        key="network.vpc_id",
        says="the account sees no vpc-11111111 in us-east-1",
        fails={"ec2 describe_vpcs": "InvalidVpcID.NotFound"},
        passes=VPC,
    ),
    "vpc-resolves-names": Online(
        THERE,
        key="network.vpc_id",
        says="enableDnsHostnames is off in vpc-11111111",
        fails={**VPC, **attribute(False)},
        passes={**VPC, **attribute(True)},
    ),
    "vpc-is-yours": Online(
        THERE,
        key="network.vpc_id",
        says="vpc-11111111 belongs to the account 999999999999: Route 53 makes no private zone in it for 123456789012",
        fails=vpc(OwnerId="999999999999"),
        passes=VPC,
    ),
    "vpc-dns-servers": [
        Online(
            THERE,
            key="network.vpc_id",
            says=f"vpc-11111111 gives nodes the DNS servers {', '.join(servers) or 'none'} (dopt-1), "
            "which do not know the names of gpucluster.internal",
            fails=dns(*servers),
            passes=dns(own),
        )
        for servers, own in (
            (("10.1.1.10", "10.1.1.11"), "AmazonProvidedDNS"),
            (("10.1.1.10", "AmazonProvidedDNS"), "169.254.169.253"),
            (("8.8.8.8",), "10.1.0.2"),
            ((), "10.7.0.2"),
        )
    ],
    "vpc-blocks-not-docker": [
        Online(
            THERE,
            key="network.vpc_id",
            says="172.17.0.0/20 of vpc-11111111 overlaps 172.17.0.0/16, the network of Docker on nodes",
            fails=blocks("10.1.0.0/16", "172.17.0.0/20"),
            passes=passes,
        )
        for passes in (blocks("10.1.0.0/16", "172.18.0.0/16"), blocks("172.17.0.0/16", state="disassociated"))
    ],
    "vpc-has-no-zone-of-the-name": [
        Online(
            THERE,
            key="name",
            says="vpc-11111111 already has a private zone gpucluster.internal",
            fails=zones("gpucluster.internal."),
            passes=zones("other.internal."),
        ),
        Online(
            THERE,
            key="name",
            says="vpc-11111111 already has a private zone gpucluster.internal",
            fails=zones("gpucluster.internal."),
            passes={**zones("gpucluster.internal."), **deployed("GpuCluster")},
        ),
    ],
    "subnet-exists": Online(
        THERE,
        key="network.subnet_id",
        says="the account sees no subnet-11111111 in us-east-1",
        fails={"ec2 describe_subnets": "InvalidSubnetID.NotFound"},
        passes=subnet(),
    ),
    "subnet-in-vpc": Online(
        THERE,
        key="network.subnet_id",
        says="subnet-11111111 is in vpc-22222222, not in vpc-11111111",
        fails=subnet(VpcId="vpc-22222222"),
        passes=subnet(),
    ),
    "subnet-zone": Online(
        THERE,
        key="network.subnet_id",
        says="subnet-11111111 is in us-east-1b, the cluster in us-east-1a",
        fails=subnet(AvailabilityZone="us-east-1b"),
        passes=subnet(),
    ),
    "subnet-has-room": Online(
        {**THERE, "parameter_servers": {"min_nodes": 16}},
        key="network.subnet_id",
        says="subnet-11111111 has 20 free addresses, but 16 nodes always on need 24 with everything else",
        fails=subnet(AvailableIpAddressCount=20),
        passes=subnet(AvailableIpAddressCount=24),
    ),
    "subnet-has-room-for-all": Online(
        THERE,
        key="network.subnet_id",
        says="subnet-11111111 has 11 free addresses, but 8 nodes at most need 16 with everything else",
        fails=subnet(AvailableIpAddressCount=11),
        passes=subnet(AvailableIpAddressCount=16),
    ),
    "subnet-gives-no-public-addresses": Online(
        THERE,
        key="network.subnet_id",
        says="subnet-11111111 gives instances public addresses",
        fails=subnet(MapPublicIpOnLaunch=True),
        passes=subnet(MapPublicIpOnLaunch=False),
    ),
    "vpc-has-endpoints": [
        Online(
            config,
            key="network.vpc_id",
            says="vpc-11111111 has no endpoint with private DNS for com.amazonaws.us-east-1.monitoring",
            fails=endpoints("logs"),
            passes=endpoints("monitoring", "logs"),
        )
        for config in (CLOSED, {**CLOSED, "monitoring": {"alarm_email": "me@example.com"}})
    ],
}
