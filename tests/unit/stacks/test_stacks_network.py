"""Who may reach whom."""

from __future__ import annotations

from typing import Any

from aws_cdk import assertions

Template = dict[str, Any]


def of_type(template: Template, *kinds: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in template["Resources"].values() if found["Type"] in kinds]


def group_of(template: Template, description: str) -> dict[str, list[str]]:
    """A reference to the security group with that description."""
    (logical_id,) = (
        logical_id
        for logical_id, found in template["Resources"].items()
        if found["Type"] == "AWS::EC2::SecurityGroup" and found["Properties"]["GroupDescription"] == description
    )
    return {"Fn::GetAtt": [logical_id, "GroupId"]}


def test_nothing_comes_in_from_outside_the_cluster(template: Template) -> None:
    for group in of_type(template, "AWS::EC2::SecurityGroup"):
        assert "SecurityGroupIngress" not in group
    for rule in of_type(template, "AWS::EC2::SecurityGroupIngress"):
        assert "SourceSecurityGroupId" in rule
        assert not {"CidrIp", "CidrIpv6", "SourcePrefixListId"} & rule.keys()


def test_efa_traffic_is_allowed_within_the_group_both_ways(template: Template) -> None:
    compute = group_of(template, "GpuCluster compute nodes")
    check = assertions.Template.from_json(template)
    check.has_resource_properties(
        "AWS::EC2::SecurityGroupIngress", {"GroupId": compute, "SourceSecurityGroupId": compute, "IpProtocol": "-1"}
    )
    check.has_resource_properties(
        "AWS::EC2::SecurityGroupEgress", {"GroupId": compute, "DestinationSecurityGroupId": compute, "IpProtocol": "-1"}
    )


def test_nodes_reach_everything_though_cloudformation_strips_the_default_rule(template: Template) -> None:
    """It revokes `-1 0.0.0.0/0` of a group that gets an egress rule of its own resource: aws-cdk#987, eksctl#6455."""
    stripped = [rule["GroupId"]["Fn::GetAtt"][0] for rule in of_type(template, "AWS::EC2::SecurityGroupEgress")]
    left = {
        logical_id: {rule["CidrIp"] for rule in found["Properties"].get("SecurityGroupEgress", [])}
        - ({"0.0.0.0/0"} if logical_id in stripped else set())
        for logical_id, found in template["Resources"].items()
        if found["Type"] == "AWS::EC2::SecurityGroup"
    }
    compute, head = (
        group_of(template, f"GpuCluster {role}")["Fn::GetAtt"][0] for role in ("compute nodes", "head node")
    )
    assert left[compute] == {"0.0.0.0/1", "128.0.0.0/1"}
    assert left[head] == {"0.0.0.0/0"}


def test_ssh_comes_through_the_endpoint_only(template: Template) -> None:
    endpoint = group_of(template, "GpuCluster Instance Connect Endpoint")
    head = group_of(template, "GpuCluster head node")
    to_head = [rule for rule in of_type(template, "AWS::EC2::SecurityGroupIngress") if rule["GroupId"] == head]
    ports = {(rule["FromPort"], rule["ToPort"]): rule["SourceSecurityGroupId"] for rule in to_head}
    compute = group_of(template, "GpuCluster compute nodes")
    assert ports == {(22, 22): endpoint, (296, 296): compute, (297, 299): compute, (61000, 64999): compute}
    assert not [rule for rule in of_type(template, "AWS::EC2::SecurityGroupIngress") if rule["GroupId"] == endpoint]


def test_the_endpoint_is_in_the_private_subnet_of_its_group(template: Template) -> None:
    (endpoint,) = of_type(template, "AWS::EC2::InstanceConnectEndpoint")
    head = of_type(template, "AWS::EC2::Instance")[0]
    assert endpoint["SubnetId"] == head["SubnetId"]
    assert endpoint["SecurityGroupIds"] == [group_of(template, "GpuCluster Instance Connect Endpoint")]


def test_no_machine_gets_a_public_address(template: Template) -> None:
    """Nor does the public subnet give one (Security Hub's control EC2.15): the NAT gateway has its own."""
    subnets = {name: found for name, found in template["Resources"].items() if found["Type"] == "AWS::EC2::Subnet"}
    assert not [name for name, found in subnets.items() if found["Properties"].get("MapPublicIpOnLaunch")]
    (gateway,) = (found for found in of_type(template, "AWS::EC2::Route") if "GatewayId" in found)
    associations = of_type(template, "AWS::EC2::SubnetRouteTableAssociation")
    public = [each["SubnetId"]["Ref"] for each in associations if each["RouteTableId"] == gateway["RouteTableId"]]
    assert len(public) == 1 and of_type(template, "AWS::EC2::Instance")[0]["SubnetId"]["Ref"] not in public
    (nat,) = of_type(template, "AWS::EC2::NatGateway")
    assert nat["SubnetId"]["Ref"] in public


def test_one_private_and_one_public_subnet_share_the_range(template: Template) -> None:
    blocks = {found["CidrBlock"] for found in of_type(template, "AWS::EC2::Subnet")}
    assert blocks == {"10.0.0.0/20", "10.0.128.0/17"}


def test_names_are_the_clusters_own(template: Template) -> None:
    (zone,) = of_type(template, "AWS::Route53::HostedZone")
    assert zone["Name"] == "gpucluster.internal." and zone["VPCs"]
    (record,) = of_type(template, "AWS::Route53::RecordSet")
    assert (record["Name"], record["Type"]) == ("head.gpucluster.internal.", "A")


def test_nothing_is_made_by_code_of_ours_in_lambda(template: Template) -> None:
    kinds = {found["Type"] for found in template["Resources"].values()}
    assert not {kind for kind in kinds if kind.startswith(("AWS::Lambda", "Custom::", "AWS::CloudFormation::CustomR"))}


def test_s3_is_reached_without_the_nat_gateway(template: Template) -> None:
    (endpoint,) = of_type(template, "AWS::EC2::VPCEndpoint")
    assert endpoint["VpcEndpointType"] == "Gateway" and "s3" in str(endpoint["ServiceName"])
