"""Everything that exists in a cloud, by kind: if it is equal before and after, nothing was left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# kind: service, operation, path of lists down to the items, key of the id
_KINDS = {
    "vpcs": ("ec2", "describe_vpcs", "Vpcs", "VpcId"),
    "subnets": ("ec2", "describe_subnets", "Subnets", "SubnetId"),
    "route tables": ("ec2", "describe_route_tables", "RouteTables", "RouteTableId"),
    "interfaces": ("ec2", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    "internet gateways": ("ec2", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "NAT gateways": ("ec2", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    "endpoints": ("ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "connect endpoints": (
        "ec2",
        "describe_instance_connect_endpoints",
        "InstanceConnectEndpoints",
        "InstanceConnectEndpointId",
    ),
    "addresses": ("ec2", "describe_addresses", "Addresses", "AllocationId"),
    "network ACLs": ("ec2", "describe_network_acls", "NetworkAcls", "NetworkAclId"),
    "security groups": ("ec2", "describe_security_groups", "SecurityGroups", "GroupId"),
    "launch templates": ("ec2", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    "placement groups": ("ec2", "describe_placement_groups", "PlacementGroups", "GroupName"),
    "key pairs": ("ec2", "describe_key_pairs", "KeyPairs", "KeyPairId"),
    "reservations": ("ec2", "describe_capacity_reservations", "CapacityReservations", "CapacityReservationId"),
    "instances": ("ec2", "describe_instances", "Reservations.Instances", "InstanceId"),
    "volumes": ("ec2", "describe_volumes", "Volumes", "VolumeId"),
    "flow logs": ("ec2", "describe_flow_logs", "FlowLogs", "FlowLogId"),
    "load balancers": ("elbv2", "describe_load_balancers", "LoadBalancers", "LoadBalancerArn"),
    "target groups": ("elbv2", "describe_target_groups", "TargetGroups", "TargetGroupArn"),
    "roles": ("iam", "list_roles", "Roles", "RoleName"),
    "policies": ("iam", "list_policies", "Policies", "PolicyName"),
    "instance profiles": ("iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    "parameters": ("ssm", "describe_parameters", "Parameters", "Name"),
    "secrets": ("secretsmanager", "list_secrets", "SecretList", "Name"),
    "buckets": ("s3", "list_buckets", "Buckets", "Name"),
    "image repositories": ("ecr", "describe_repositories", "repositories", "repositoryName"),
    "hosted zones": ("route53", "list_hosted_zones", "HostedZones", "Id"),
    "log groups": ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    "alarms": ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    "dashboards": ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
    "topics": ("sns", "list_topics", "Topics", "TopicArn"),
    "subscriptions": ("sns", "list_subscriptions", "Subscriptions", "SubscriptionArn"),
    "rules": ("events", "list_rules", "Rules", "Name"),
    "key aliases": ("kms", "list_aliases", "Aliases", "AliasName"),
    "databases": ("rds", "describe_db_instances", "DBInstances", "DBInstanceIdentifier"),
    "database subnets": ("rds", "describe_db_subnet_groups", "DBSubnetGroups", "DBSubnetGroupName"),
    "database parameters": ("rds", "describe_db_parameter_groups", "DBParameterGroups", "DBParameterGroupName"),
    "snapshot policies": ("dlm", "get_lifecycle_policies", "Policies", "PolicyId"),
    "EFS": ("efs", "describe_file_systems", "FileSystems", "FileSystemId"),
    "FSx": ("fsx", "describe_file_systems", "FileSystems", "FileSystemId"),
}
_GONE = ("deleted", "terminated", "cancelled")


def census(client: Callable[[str], Any]) -> dict[str, set[str]]:
    """Ids by kind, from `client(service)`. Resources that AWS still shows for a while after their end are skipped."""
    found = {kind: set(_ids(client(service), *rest)) for kind, (service, *rest) in _KINDS.items()}
    found["policies"] = {name for name in found["policies"] if name.startswith("Every") or "Foreign" in name}
    found["parameters"] = {name for name in found["parameters"] if not name.startswith("/aws/")}
    found["tables"] = set(client("dynamodb").list_tables()["TableNames"])
    return found


def _ids(client: Any, operation: str, path: str, key: str) -> list[str]:
    items: list[Any] = [getattr(client, operation)()]
    for name in path.split("."):
        items = [item for parent in items for item in parent.get(name, [])]
    return [str(item[key]) for item in items if _state(item) not in _GONE]


def _state(item: dict[str, Any]) -> str:
    state = item.get("State", "")
    return str(state.get("Name") if isinstance(state, dict) else state)
