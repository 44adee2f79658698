"""Network variants: an existing VPC, no internet, SSH from named networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_stacks_network import group_of, of_type
from test_stacks_nodes import only
from test_stacks_roles import allowing, resources

from gpucluster.cluster.plan import beside_nodes
from gpucluster.config import loads
from gpucluster.config.checks.online.network import needed_services

Template = dict[str, Any]

CLUSTER = """
name: GpuCluster
region: {region}
availability_zone: {region}a
network: {network}
software: {{image: ami-0123456789abcdef0}}
partitions:
  - {{name: train, instance_types: [p4d.24xlarge, p5.48xlarge], max_nodes: 4}}
  - {{name: small, instance_types: [g5.xlarge], max_nodes: 4}}
"""
VPC, SUBNET = "vpc-0123456789abcdef0", "subnet-0123456789abcdef0"


def cluster(network: str, region: str = "eu-west-1", more: str = "") -> str:
    return CLUSTER.format(region=region, network=network) + more


EXISTING = cluster(f"{{vpc_id: {VPC}, subnet_id: {SUBNET}}}")
ISOLATED = cluster("{internet: none}")
OPEN = cluster("{ssh_from: [203.0.113.0/24, 198.51.100.7/32]}")


def kinds(template: Template) -> set[str]:
    return {found["Type"] for found in template["Resources"].values()}


def interface_endpoints(template: Template) -> list[dict[str, Any]]:
    return [each for each in of_type(template, "AWS::EC2::VPCEndpoint") if each["VpcEndpointType"] == "Interface"]


# A VPC that exists


def test_nothing_that_belongs_to_the_vpc_is_made_in_one_that_exists(template_of: Callable[[str], Template]) -> None:
    of_the_owner = {"VPC", "Subnet", "RouteTable", "Route", "InternetGateway", "NatGateway", "EIP", "VPCEndpoint"}
    assert not kinds(template_of(EXISTING)) & {f"AWS::EC2::{kind}" for kind in of_the_owner}


def test_everything_is_in_the_subnet_that_exists(template_of: Callable[[str], Template]) -> None:
    template = template_of(EXISTING)
    (interface,) = only(template, "AWS::EC2::Instance")["Properties"]["NetworkInterfaces"]
    assert (interface["SubnetId"], interface["AssociatePublicIpAddress"]) == (SUBNET, False)
    assert interface["GroupSet"] == [group_of(template, "GpuCluster head node")]
    assert of_type(template, "AWS::EC2::InstanceConnectEndpoint")[0]["SubnetId"] == SUBNET
    for data in of_type(template, "AWS::EC2::LaunchTemplate"):
        assert {each["SubnetId"] for each in data["LaunchTemplateData"]["NetworkInterfaces"]} == {SUBNET}
    assert {each["VpcId"] for each in of_type(template, "AWS::EC2::SecurityGroup")} == {VPC}
    (zone,) = of_type(template, "AWS::Route53::HostedZone")
    assert zone["VPCs"] == [{"VPCId": VPC, "VPCRegion": "eu-west-1"}]
    assert {each["AvailabilityZone"] for each in of_type(template, "AWS::EC2::Volume")} == {"eu-west-1a"}


def test_the_endpoint_of_the_vpc_is_used_instead_of_a_new_one(template_of: Callable[[str], Template]) -> None:
    """A VPC has one, so that two clusters share it: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/eice-quotas.html"""
    endpoint, group = "eice-0123456789abcdef0", "sg-0123456789abcdef0"
    door = f"connect_endpoint_id: {endpoint}, connect_security_group_id: {group}"
    template = template_of(cluster(f"{{vpc_id: {VPC}, subnet_id: {SUBNET}, {door}}}"))
    assert not of_type(template, "AWS::EC2::InstanceConnectEndpoint")
    assert template["Outputs"]["InstanceConnectEndpointId"]["Value"] == endpoint
    nodes = [group_of(template, f"GpuCluster {who}") for who in ("head node", "compute nodes")]
    rules = [each for each in of_type(template, "AWS::EC2::SecurityGroupIngress") if each.get("FromPort") == 22]
    assert [(each["GroupId"], each["SourceSecurityGroupId"]) for each in rules] == [(each, group) for each in nodes]
    changed = of_type(template, "AWS::EC2::SecurityGroupEgress")
    assert group not in [each["GroupId"] for each in changed], "CloudFormation would remove the group's default rule"


def test_another_prometheus_reads_every_node_and_nothing_else(template_of: Callable[[str], Template]) -> None:
    group = "sg-0123456789abcdef0"
    template = template_of(f"{EXISTING}\nmonitoring: {{scrape_from: {group}}}\n")
    nodes = [group_of(template, f"GpuCluster {who}") for who in ("head node", "compute nodes")]
    rules = [
        (each["GroupId"], each["FromPort"], each["ToPort"])
        for each in of_type(template, "AWS::EC2::SecurityGroupIngress")
        if each.get("SourceSecurityGroupId") == group
    ]
    assert rules == [(each, 300, 300) for each in nodes]


def test_no_node_takes_a_public_address_from_a_subnet_that_gives_them(template_of: Callable[[str], Template]) -> None:
    """EC2 refuses the word beside several interfaces, and gives those no address by itself."""
    for found in of_type(template_of(EXISTING), "AWS::EC2::LaunchTemplate"):
        interfaces = found["LaunchTemplateData"]["NetworkInterfaces"]
        said = [each.get("AssociatePublicIpAddress") for each in interfaces]
        assert said == [False] if len(interfaces) == 1 else said == [None] * len(interfaces)


def test_a_subnet_of_another_account_may_be_used(template_of: Callable[[str], Template]) -> None:
    used = [
        each for found in allowing(template_of(EXISTING), "HeadRole", "ec2:RunInstances") for each in resources(found)
    ]
    assert [each.partition(":ec2:")[2] for each in used if ":subnet/" in each] == [f"eu-west-1:*:subnet/{SUBNET}"]


# No internet


def test_there_is_no_route_to_the_internet(template_of: Callable[[str], Template]) -> None:
    template = template_of(ISOLATED)
    assert not kinds(template) & {f"AWS::EC2::{kind}" for kind in ("InternetGateway", "NatGateway", "EIP", "Route")}
    (subnet,) = of_type(template, "AWS::EC2::Subnet")
    assert subnet["CidrBlock"] == "10.0.128.0/17" and not subnet["MapPublicIpOnLaunch"]


OF_JOBS = (
    "storage: [{mount: /fsx, type: fsx-lustre, lifetime: jobs,"
    ' data_repositories: [{path: /a, s3: "s3://my-bucket/a", import: [new]}]}]\n'
)
NOTICES = "monitoring: {alarm_email: me@example.com}\n"


@pytest.mark.parametrize(
    ("more", "services"),
    [
        ("", {"ec2", "ssm", "secretsmanager", "logs", "monitoring"}),
        (
            's3_access: [{uri: "s3://my-bucket/x"}]\n',
            {"ec2", "ssm", "secretsmanager", "logs", "monitoring", "sts"},
        ),
        (OF_JOBS, {"ec2", "ssm", "secretsmanager", "logs", "monitoring", "fsx"}),
        (NOTICES, {"ec2", "ssm", "secretsmanager", "logs", "monitoring", "sns"}),
    ],
    ids=["without jobs' role", "with jobs' role", "with a file system of jobs", "with e-mails"],
)
def test_every_api_that_nodes_call_has_an_endpoint(
    template_of: Callable[[str], Template], more: str, services: set[str]
) -> None:
    template = template_of(cluster("{internet: none}", more=more))
    names = {each["ServiceName"] for each in interface_endpoints(template)}
    assert names == {f"com.amazonaws.eu-west-1.{service}" for service in services} | {"com.amazonaws.route53"}
    gateways = [each for each in of_type(template, "AWS::EC2::VPCEndpoint") if each["VpcEndpointType"] == "Gateway"]
    assert len(gateways) == 1 and "s3" in str(gateways[0]["ServiceName"]) and gateways[0]["RouteTableIds"]
    asked_of_an_existing_vpc = needed_services(loads(cluster("{internet: none}", more=more)))
    assert set(asked_of_an_existing_vpc) == names | {"com.amazonaws.eu-west-1.s3"}
    (priced,) = [
        each.name for each in beside_nodes(loads(cluster("{internet: none}", more=more))) if "AWS's" in each.name
    ]
    assert priced == f"{len(names)} endpoints of AWS's services"


def test_the_head_node_reaches_the_role_that_keeps_packages(template_of: Callable[[str], Template]) -> None:
    """S3's own endpoint has no policy: it lets through what the role allows."""
    kept = ISOLATED.replace("software: {", "software: {cache: s3://my-bucket/x, ")
    assert kept != ISOLATED
    template = template_of(kept)
    assert "com.amazonaws.eu-west-1.sts" in {each["ServiceName"] for each in interface_endpoints(template)}
    assert "com.amazonaws.eu-west-1.sts" in needed_services(loads(kept))
    assert not [each for each in of_type(template, "AWS::EC2::VPCEndpoint") if "PolicyDocument" in each]
    priced = [each.name for each in beside_nodes(loads(kept)) if "endpoints of AWS's" in each.name]
    assert priced == ["7 endpoints of AWS's services"]


@pytest.mark.parametrize("more", ["", OF_JOBS])
def test_every_action_that_nodes_may_take_is_of_an_api_that_they_reach(
    template_of: Callable[[str], Template], more: str
) -> None:
    """A role that learns to call another API needs another endpoint: the name of an action says whose it is."""
    isolated = cluster("{internet: none}", more=more)
    reached = {"ec2", "ssm", "secretsmanager", "logs", "cloudwatch", "s3", "route53", "sts", *(["fsx"] if more else [])}
    # Services call KMS in the name of who calls them; roles are passed within the call of RunInstances.
    called_by_services = {"kms", "iam"}
    for role in ("HeadRole", "ComputeRole"):
        template = template_of(isolated)
        found = [*of_type(template, "AWS::IAM::Policy"), *of_type(template, "AWS::IAM::ManagedPolicy")]
        policies = [each for each in found if each["Roles"][0]["Ref"].startswith(role)]
        for statement in (one for policy in policies for one in policy["PolicyDocument"]["Statement"]):
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert {action.partition(":")[0] for action in actions} <= reached | called_by_services


def test_endpoints_answer_to_the_apis_own_names_and_to_nodes_alone(template_of: Callable[[str], Template]) -> None:
    template = template_of(ISOLATED)
    group = group_of(template, "GpuCluster API endpoints")
    nodes = [group_of(template, f"GpuCluster {which}") for which in ("head node", "compute nodes")]
    for endpoint in interface_endpoints(template):
        assert endpoint["PrivateDnsEnabled"] is True and endpoint["SecurityGroupIds"] == [group]
    rules = [each for each in of_type(template, "AWS::EC2::SecurityGroupIngress") if each["GroupId"] == group]
    assert [each["SourceSecurityGroupId"] for each in rules] == nodes
    assert {(each["FromPort"], each["ToPort"]) for each in rules} == {(443, 443)}
    assert "SecurityGroupIngress" not in template["Resources"][group["Fn::GetAtt"][0]]["Properties"]
    (vpc,) = of_type(template, "AWS::EC2::VPC")
    assert vpc["EnableDnsHostnames"] and vpc["EnableDnsSupport"]


@pytest.mark.parametrize(("region", "service_region"), [("eu-west-1", "us-east-1"), ("us-east-1", None)])
def test_route_53_is_reached_across_regions(
    template_of: Callable[[str], Template], region: str, service_region: str | None
) -> None:
    endpoints = interface_endpoints(template_of(cluster("{internet: none}", region)))
    (route53,) = (each for each in endpoints if each["ServiceName"] == "com.amazonaws.route53")
    assert route53.get("ServiceRegion") == service_region


def test_the_head_is_deleted_before_its_endpoints(template_of: Callable[[str], Template]) -> None:
    template = template_of(ISOLATED)
    after = only(template, "AWS::EC2::Instance")["DependsOn"]
    made = {key for key, found in template["Resources"].items() if found["Type"] == "AWS::EC2::VPCEndpoint"}
    assert made <= set(after)


# SSH from named networks


def test_only_the_networks_named_reach_the_load_balancer(template_of: Callable[[str], Template]) -> None:
    template = template_of(OPEN)
    group = group_of(template, "GpuCluster load balancer for SSH")
    properties = template["Resources"][group["Fn::GetAtt"][0]]["Properties"]
    rules = properties["SecurityGroupIngress"]
    assert [(rule["CidrIp"], rule["FromPort"], rule["ToPort"]) for rule in rules] == [
        ("203.0.113.0/24", 22, 22),
        ("198.51.100.7/32", 22, 22),
    ]
    (balancer,) = of_type(template, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert balancer["SecurityGroups"] == [group]
    assert (balancer["Type"], balancer["Scheme"], balancer.get("Name")) == ("network", "internet-facing", None)


def test_no_other_group_accepts_traffic_from_outside(template_of: Callable[[str], Template]) -> None:
    template = template_of(OPEN)
    balancer = group_of(template, "GpuCluster load balancer for SSH")["Fn::GetAtt"][0]
    for logical_id, found in template["Resources"].items():
        if found["Type"] == "AWS::EC2::SecurityGroup" and logical_id != balancer:
            assert "SecurityGroupIngress" not in found["Properties"]
    for rule in of_type(template, "AWS::EC2::SecurityGroupIngress"):
        assert "SourceSecurityGroupId" in rule and "CidrIp" not in rule


def test_the_load_balancer_leads_to_the_heads_port_22(template_of: Callable[[str], Template]) -> None:
    template = template_of(OPEN)
    group, head = group_of(template, "GpuCluster load balancer for SSH"), group_of(template, "GpuCluster head node")
    (instance,) = (key for key, found in template["Resources"].items() if found["Type"] == "AWS::EC2::Instance")
    (target,) = of_type(template, "AWS::ElasticLoadBalancingV2::TargetGroup")
    assert target["Targets"] == [{"Id": {"Ref": instance}, "Port": 22}]
    assert (target["Protocol"], target["TargetType"], target["HealthCheckProtocol"]) == ("TCP", "instance", "TCP")
    (listener,) = of_type(template, "AWS::ElasticLoadBalancingV2::Listener")
    assert (listener["Protocol"], listener["Port"]) == ("TCP", 22)
    (egress,) = (each for each in of_type(template, "AWS::EC2::SecurityGroupEgress") if each["GroupId"] == group)
    assert (egress["DestinationSecurityGroupId"], egress["FromPort"], egress["ToPort"]) == (head, 22, 22)
    admitted = [
        each
        for each in of_type(template, "AWS::EC2::SecurityGroupIngress")
        if each["GroupId"] == head and each["SourceSecurityGroupId"] == group
    ]
    assert [(each["FromPort"], each["ToPort"]) for each in admitted] == [(22, 22)]


def test_the_load_balancer_is_public_and_the_head_is_not(template_of: Callable[[str], Template]) -> None:
    template = template_of(OPEN)
    (balancer,) = of_type(template, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    (subnet,) = balancer["Subnets"]
    routes = {each["RouteTableId"]["Ref"] for each in of_type(template, "AWS::EC2::Route") if "GatewayId" in each}
    ways = of_type(template, "AWS::EC2::SubnetRouteTableAssociation")
    assert [each["RouteTableId"]["Ref"] in routes for each in ways if each["SubnetId"] == subnet] == [True]
    assert only(template, "AWS::EC2::Instance")["Properties"]["SubnetId"] != subnet
    waits_for = {template["Resources"][each]["Type"] for each in only(template, LOAD_BALANCER)["DependsOn"]}
    assert "AWS::EC2::Route" in waits_for, "it is refused before the internet gateway is attached"


LOAD_BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"


def test_the_load_balancers_host_is_an_output(template_of: Callable[[str], Template]) -> None:
    assert template_of(OPEN)["Outputs"]["SshHost"]["Value"]["Fn::GetAtt"][1] == "DNSName"
    without = template_of(ISOLATED)
    assert "SshHost" not in without["Outputs"] and LOAD_BALANCER not in kinds(without)
