"""AWS::RDS: an instance, its subnet group and its parameter group."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    resource,
    tag_list,
    without,
)


def _retag(call: Call, arn: str, new: Properties) -> None:
    call.api("rds", "add_tags_to_resource", ResourceName=arn, Tags=tag_list(call, new) or None)


@resource(
    "AWS::RDS::DBInstance",
    updatable="AllocatedStorage AutoMinorVersionUpgrade BackupRetentionPeriod CopyTagsToSnapshot DBInstanceClass "
    "DBParameterGroupName DeletionProtection EnableCloudwatchLogsExports EngineVersion MasterUserPassword "
    "MaxAllocatedStorage MultiAZ StorageType Tags VPCSecurityGroups",
)
class DbInstance(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("DBInstanceIdentifier") or call.name(63, lower=True)
        call.api("rds", "create_db_instance", self._spelled(properties), DBInstanceIdentifier=name,
                 Tags=tag_list(call, properties) or None)  # fmt: skip
        call.announce(name)
        call.wait(lambda: self._settled(call, name), f"{name} becoming available")
        return self._made(call, name)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        before, after = self._spelled(old), self._spelled(new)
        changed = {key: value for key, value in after.items() if before.get(key) != value}
        changed.pop("EnableCloudwatchLogsExports", None)
        if changed:
            call.api("rds", "modify_db_instance", changed, DBInstanceIdentifier=physical_id, ApplyImmediately=True)
        made = self._made(call, physical_id)
        _retag(call, str(made.attributes["DBInstanceArn"]), new)
        return made

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("rds", "delete_db_instance", DBInstanceIdentifier=physical_id, SkipFinalSnapshot=True)
        there = {"DBInstanceIdentifier": physical_id}
        call.wait(lambda: not call.if_there("rds", "describe_db_instances", **there), f"{physical_id} going away")

    def snapshot(self, call: Call, physical_id: str) -> None:
        snapshot = f"{physical_id[:40]}-snapshot-{call.name(20, lower=True)[-12:]}"
        call.api("rds", "create_db_snapshot", DBInstanceIdentifier=physical_id, DBSnapshotIdentifier=snapshot)

    def _spelled(self, properties: Properties) -> dict[str, Any]:
        given = without(properties, "Tags", "VPCSecurityGroups", "DBInstanceIdentifier")
        given["VpcSecurityGroupIds"] = properties.get("VPCSecurityGroups")
        return {key: value for key, value in given.items() if value is not None}

    def _find(self, call: Call, name: str) -> Any:
        return call.api("rds", "describe_db_instances", DBInstanceIdentifier=name)["DBInstances"][0]

    def _settled(self, call: Call, name: str) -> bool:
        status = self._find(call, name)["DBInstanceStatus"]
        if status == "failed":
            raise ResourceError(f"DB instance {name} has failed: its database never answered")
        return bool(status == "available")

    def _made(self, call: Call, name: str) -> Made:
        found = self._find(call, name)
        endpoint = found.get("Endpoint")
        if not endpoint:
            raise ResourceError(f"{name} has no endpoint")
        attributes = {
            "Endpoint.Address": endpoint["Address"],
            "Endpoint.Port": str(endpoint["Port"]),
            "DBInstanceArn": found["DBInstanceArn"],
            "DbiResourceId": found.get("DbiResourceId", ""),
        }
        return Made(name, attributes)


@resource(
    "AWS::RDS::DBSubnetGroup",
    updatable="DBSubnetGroupDescription SubnetIds Tags",
    delete="rds delete_db_subnet_group DBSubnetGroupName",
)
class DbSubnetGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("DBSubnetGroupName") or call.name(255, lower=True)
        given = without(properties, "DBSubnetGroupName", "Tags")
        _two_zones(call, given["SubnetIds"])
        tags = tag_list(call, properties) or None
        call.api("rds", "create_db_subnet_group", given, DBSubnetGroupName=name, Tags=tags)
        return Made(name)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        given = without(new, "DBSubnetGroupName", "Tags")
        _two_zones(call, given["SubnetIds"])
        group = call.api("rds", "modify_db_subnet_group", given, DBSubnetGroupName=physical_id)["DBSubnetGroup"]
        _retag(call, group["DBSubnetGroupArn"], new)
        return Made(physical_id)


def _two_zones(call: Call, subnet_ids: list[str]) -> None:
    """moto accepts any subnets; RDS does not."""
    subnets = call.api("ec2", "describe_subnets", SubnetIds=subnet_ids)["Subnets"]
    if len({subnet["AvailabilityZone"] for subnet in subnets}) < 2:
        raise ResourceError(
            "The DB subnet group doesn't meet Availability Zone (AZ) coverage requirement. Current AZ coverage: "
            f"{', '.join(sorted({subnet['AvailabilityZone'] for subnet in subnets}))}. Add subnets to cover at least "
            "2 AZs. (Service: Rds, Status Code: 400)"
        )


@resource(
    "AWS::RDS::DBParameterGroup",
    updatable="Parameters Tags",
    delete="rds delete_db_parameter_group DBParameterGroupName",
)
class DbParameterGroup(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        name = properties.get("DBParameterGroupName") or call.name(255, lower=True)
        family, tags = properties["Family"], tag_list(call, properties) or None
        call.api("rds", "create_db_parameter_group", DBParameterGroupName=name, DBParameterGroupFamily=family,
                 Description=properties["Description"], Tags=tags)  # fmt: skip
        call.announce(name)
        self._set(call, name, properties)
        return Made(name, {"DBParameterGroupName": name})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        self._set(call, physical_id, new)
        return Made(physical_id, {"DBParameterGroupName": physical_id})

    def _set(self, call: Call, name: str, properties: Properties) -> None:
        given = [
            {"ParameterName": key, "ParameterValue": str(value), "ApplyMethod": "pending-reboot"}
            for key, value in (properties.get("Parameters") or {}).items()
        ]
        if given:
            call.api("rds", "modify_db_parameter_group", DBParameterGroupName=name, Parameters=given)
