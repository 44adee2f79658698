"""Rules for databases, EFS file systems and load balancers.

https://docs.aws.amazon.com/AmazonRDS/latest/APIReference/API_CreateDBInstance.html, .../API_CreateDBSubnetGroup.html,
https://docs.aws.amazon.com/efs/latest/ug/, https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.efs.models import efs_backends
from moto.elbv2.models import elbv2_backends
from moto.rds.models import rds_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_IDENTIFIER = re.compile(r"[a-zA-Z](?:-?[a-zA-Z0-9])*")
_ENGINES = {
    "mariadb": ("10.4", "10.5", "10.6", "10.11", "11.4", "11.8"),
    "mysql": ("5.7", "8.0", "8.4"),
    "postgres": tuple(str(major) for major in range(11, 19)),
}
_PASSWORDS = {"mariadb": 41, "mysql": 41, "postgres": 128}
_SHORTEST_WINDOW_MIN = 30
_LEAST_GIB, _MOST_GIB = 20, 65536
_LONGEST_USERS = {"mariadb": 16, "mysql": 16, "postgres": 63}
_PORTS = range(1150, 65536)
_LONGEST_NAME = 32
_RESERVED_USERS = ("rdsadmin", "rds_superuser", "rdsrepladmin")
_MOST_GROUPS = 5


def _invalid(message: str, code: str = "InvalidParameterValue") -> Refusal:
    return Refusal(code, message)


@rule("rds", "CreateDBInstance")
def database(given: Parameters, region: str) -> None:
    name, engine, kind = str(given["DBInstanceIdentifier"]), str(given["Engine"]), str(given["DBInstanceClass"])
    if not _IDENTIFIER.fullmatch(name) or len(name) > 63:
        raise _invalid(
            "The parameter DBInstanceIdentifier is not a valid identifier. Identifiers must begin with a letter; must "
            "contain only ASCII letters, digits, and hyphens; and must not end with a hyphen or contain two "
            "consecutive hyphens."
        )
    if not _is_class(kind):
        raise _invalid(f"Invalid DB Instance class: {kind}")
    if engine in _ENGINES:
        _check_engine(given, engine)
    port, storage, days = given.get("Port"), given.get("AllocatedStorage"), given.get("BackupRetentionPeriod")
    if port is not None and int(port) not in _PORTS:
        raise _invalid(f"The port {port} is not valid: it must be from {_PORTS[0]} to {_PORTS[-1]}")
    if storage is not None and engine in _ENGINES and not _LEAST_GIB <= int(storage) <= _MOST_GIB:
        raise _invalid(f"Invalid storage size for engine name {engine} and storage type gp2: {storage}")
    if days is not None and not 0 <= int(days) <= 35:
        raise _invalid(f"Invalid backup retention period: {days}. It must be between 0 and 35.")
    if re.fullmatch(r"\d\d:\d\d-\d\d:\d\d", str(given.get("PreferredBackupWindow"))):
        _check_window(str(given["PreferredBackupWindow"]))
    if given.get("MultiAZ") and given.get("AvailabilityZone"):
        raise _invalid("Requesting a specific availability zone is not valid for Multi-AZ instances.",
                       "InvalidParameterCombination")  # fmt: skip


def _check_window(window: str) -> None:
    begin, end = (int(part[:2]) * 60 + int(part[3:]) for part in window.split("-"))
    if (end - begin) % (24 * 60) < _SHORTEST_WINDOW_MIN:
        raise _invalid(f"Backup window must be at least {_SHORTEST_WINDOW_MIN} minutes.")


def _is_class(kind: str) -> bool:
    """Aurora Serverless, or an instance type; Oracle's classes add threads and memory (.tpc1.mem2x)."""
    return kind == "db.serverless" or (
        kind.startswith("db.") and kind.removeprefix("db.").partition(".tpc")[0] in INSTANCE_TYPES
    )


def _check_engine(given: Parameters, engine: str) -> None:
    version, password, user = given.get("EngineVersion"), given.get("MasterUserPassword"), given.get("MasterUsername")
    if given.get("DBName") and not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", str(given["DBName"])):
        raise _invalid("DBName must begin with a letter and contain only alphanumeric characters.")
    if user is not None and len(str(user)) > _LONGEST_USERS[engine]:
        raise _invalid(f"The parameter MasterUsername must have at most {_LONGEST_USERS[engine]} characters.")
    if given.get("StorageType") in ("io1", "io2") and not given.get("Iops"):
        raise _invalid("The parameter Iops must be specified for Provisioned IOPS storage.",
                       "InvalidParameterCombination")  # fmt: skip
    if given.get("StorageType") in ("gp2", "standard") and given.get("Iops"):
        raise _invalid(f"You can't specify IOPS for {given['StorageType']} storage.", "InvalidParameterCombination")
    if (
        version
        and not str(version).startswith(tuple(f"{each}." for each in _ENGINES[engine]))
        and (version not in _ENGINES[engine] and version not in {each.partition(".")[0] for each in _ENGINES[engine]})
    ):
        raise _invalid(f"Cannot find version {version} for {engine}", "InvalidParameterCombination")
    if password is not None:
        check_password(str(password), engine)
    if user is not None and (
        str(user).lower() in _RESERVED_USERS or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", str(user))
    ):
        raise _invalid(f"MasterUsername {user} cannot be used as it is a reserved word used by the engine")


def check_password(password: str, engine: str) -> None:
    most = _PASSWORDS.get(engine, 128)
    words = "The parameter MasterUserPassword is not a valid password because it is"
    if len(password) < 8:
        raise _invalid(f"{words} shorter than 8 characters.")
    if len(password) > most:
        raise _invalid(f"{words} longer than {most} characters.")
    if re.search(r'[/@" ]', password) or not password.isprintable():
        raise _invalid("The parameter MasterUserPassword is not a valid password. Only printable ASCII characters "
                       "besides '/', '@', '\"', ' ' may be used.")  # fmt: skip


@rule("rds", "CreateDBParameterGroup")
def family(given: Parameters, region: str) -> None:
    """Checks versions of the engines in `_ENGINES`, from each one's page of the RDS user guide."""
    wanted = str(given["DBParameterGroupFamily"])
    for engine, majors in _ENGINES.items():
        if re.fullmatch(rf"{engine}[\d.]*", wanted) and wanted.removeprefix(engine) not in majors:
            raise _invalid(f"ParameterGroupFamily {wanted} is not a valid parameter group family")
    if not re.search(r"\d", wanted):
        raise _invalid(f"ParameterGroupFamily {wanted} is not a valid parameter group family")


@rule("rds", "CreateDBInstance")
def same_family(given: Parameters, region: str) -> None:
    """An instance without a named group gets the default one of its version, which always fits."""
    held = rds_backends[ACCOUNT_ID][region].db_parameter_groups.get(str(given.get("DBParameterGroupName")))
    if held is None:
        return
    engine, version = str(given["Engine"]), str(given.get("EngineVersion") or "")
    wanted = str(held.family)
    majors = [engine + major for major in _ENGINES.get(engine, ()) if f"{version}.".startswith(f"{major}.")]
    fits = wanted in majors if version and majors else wanted.startswith(engine)
    if engine in _ENGINES and not fits:
        raise _invalid(f"The parameter group {given['DBParameterGroupName']} with DBParameterGroupFamily {wanted} "
                       "can't be used for this instance.", "InvalidParameterCombination")  # fmt: skip


@rule("rds", "DeleteDBParameterGroup")
def parameter_group_in_use(given: Parameters, region: str) -> None:
    name = str(given["DBParameterGroupName"])
    for held in rds_backends[ACCOUNT_ID][region].databases.values():
        if name == getattr(held, "db_parameter_group_name", None):
            raise _invalid("One or more database instances are still members of this parameter group, so the group "
                           "cannot be deleted", "InvalidDBParameterGroupState")  # fmt: skip
    if name.startswith("default."):
        raise _invalid(f"Default DBParameterGroup cannot be deleted: {name}", "InvalidDBParameterGroupState")


@rule("rds", "ModifyDBInstance")
def change(given: Parameters, region: str) -> None:
    held = rds_backends[ACCOUNT_ID][region].databases.get(str(given["DBInstanceIdentifier"]))
    if held is None:
        return
    if given.get("DBInstanceClass") and not _is_class(str(given["DBInstanceClass"])):
        raise _invalid(f"Invalid DB Instance class: {given['DBInstanceClass']}")
    if given.get("MasterUserPassword") is not None:
        check_password(str(given["MasterUserPassword"]), str(held.engine))
    storage = given.get("AllocatedStorage")
    if storage is not None and int(storage) < int(held.allocated_storage):
        raise _invalid(f"The allocated storage cannot be decreased from {held.allocated_storage}",
                       "InvalidParameterCombination")  # fmt: skip


@rule("rds", "DeleteDBInstance")
def final_snapshot(given: Parameters, region: str) -> None:
    skips, named = bool(given.get("SkipFinalSnapshot")), given.get("FinalDBSnapshotIdentifier")
    held = rds_backends[ACCOUNT_ID][region].databases.get(str(given["DBInstanceIdentifier"]))
    if not skips and not named and getattr(held, "db_cluster_identifier", None):
        return  # the cluster keeps the data and takes the final snapshot
    if skips == bool(named):
        need = (
            "cannot be specified when deleting an instance with SkipFinalSnapshot" if skips else "is required unless "
        )
        text = f"FinalDBSnapshotIdentifier {need}" + ("" if skips else "SkipFinalSnapshot is specified.")
        raise _invalid(text, "InvalidParameterCombination")


@rule("rds", "CreateDBSubnetGroup", "ModifyDBSubnetGroup")
def subnet_group(given: Parameters, region: str) -> None:
    zones = _zones(region, given.get("SubnetIds") or [], "InvalidSubnet")
    if len(set(zones)) < 2:
        raise _invalid(
            "The DB subnet group doesn't meet Availability Zone (AZ) coverage requirement. Current AZ coverage: "
            f"{', '.join(sorted(set(zones)))}. Add subnets to cover at least 2 AZs.",
            "DBSubnetGroupDoesNotCoverEnoughAZs",
        )


@rule("rds", "CreateDBSubnetGroup")
def new_subnet_group(given: Parameters, region: str) -> None:
    name = str(given["DBSubnetGroupName"])
    if name.lower() in map(str.lower, rds_backends[ACCOUNT_ID][region].subnet_groups):
        raise _invalid(f"The DB subnet group '{name}' already exists.", "DBSubnetGroupAlreadyExists")


@rule("rds", "DeleteDBSubnetGroup")
def subnet_group_in_use(given: Parameters, region: str) -> None:
    name = str(given["DBSubnetGroupName"])
    for held in rds_backends[ACCOUNT_ID][region].databases.values():
        group = getattr(held, "db_subnet_group", None)
        if getattr(group, "subnet_name", None) == name or getattr(group, "name", None) == name:
            raise _invalid(
                f"Cannot delete the subnet group '{name}' because at least one database instance: "
                f"{held.db_instance_identifier} is still using it.", "InvalidDBSubnetGroupStateFault",
            )  # fmt: skip


def _zones(region: str, subnet_ids: list[str], code: str) -> list[str]:
    ec2: EC2Backend = ec2_backends[ACCOUNT_ID][region]
    known: dict[str, Any] = {subnet_id: subnet for zone in ec2.subnets.values() for subnet_id, subnet in zone.items()}
    for subnet_id in subnet_ids:
        if subnet_id not in known:
            raise Refusal(code, f"The subnet ID '{subnet_id}' does not exist")
    return [str(known[subnet_id].availability_zone) for subnet_id in subnet_ids]


@rule("efs", "CreateFileSystem", "UpdateFileSystem")
def file_system(given: Parameters, region: str) -> None:
    mode, mib_s = given.get("ThroughputMode"), given.get("ProvisionedThroughputInMibps")
    if mode == "provisioned" and mib_s is None:
        raise Refusal("BadRequest", "ProvisionedThroughputInMibps is required when ThroughputMode is provisioned.")
    if mode != "provisioned" and mib_s is not None:
        raise Refusal("BadRequest", "ProvisionedThroughputInMibps requires ThroughputMode to be provisioned.")
    if given.get("KmsKeyId") and given.get("Encrypted") is False:
        raise Refusal("BadRequest", "KmsKeyId requires Encrypted to be true.")
    if mode == "elastic" and given.get("PerformanceMode") == "maxIO":
        raise Refusal("BadRequest", "Elastic throughput is not supported with the performance mode maxIO.")


@rule("efs", "CreateMountTarget")
def mount_target(given: Parameters, region: str) -> None:
    _zones(region, [str(given["SubnetId"])], "SubnetNotFound")
    _check_free(given, region)
    subnet = ec2_backends[ACCOUNT_ID][region].get_subnet(str(given["SubnetId"]))
    _check_groups(given, str(subnet.vpc_id), region)


@rule("efs", "ModifyMountTargetSecurityGroups")
def mount_target_groups(given: Parameters, region: str) -> None:
    held = efs_backends[ACCOUNT_ID][region].mount_targets_by_id.get(str(given["MountTargetId"]))
    if held is not None:
        _check_groups(given, str(held.vpc_id), region)


def _check_free(given: Parameters, region: str) -> None:
    subnet, address = ec2_backends[ACCOUNT_ID][region].get_subnet(str(given["SubnetId"])), given.get("IpAddress")
    taken = {each.private_ip_address for each in subnet.ec2_backend.enis.values() if each.subnet.id == subnet.id}
    if address and (address in subnet._subnet_ips or address in taken):
        raise Refusal("IpAddressInUse", f"The address {address} is already in use.", 409)
    if address and ipaddress.ip_address(address) not in ipaddress.ip_network(subnet.cidr_block):
        raise Refusal("BadRequest", f"The address {address} is not in the subnet's range {subnet.cidr_block}.")


def _check_groups(given: Parameters, vpc_id: str, region: str) -> None:
    groups = given.get("SecurityGroups") or []
    if len(groups) > _MOST_GROUPS:
        raise Refusal("SecurityGroupLimitExceeded", f"A mount target has at most {_MOST_GROUPS} security groups.")
    for group_id in groups:
        group = ec2_backends[ACCOUNT_ID][region].get_security_group_from_id(group_id)
        if group is None:
            raise Refusal("SecurityGroupNotFound", f"The security group ID '{group_id}' does not exist")
        if group.vpc_id != vpc_id:
            raise Refusal("BadRequest", f"The security group {group_id} is not in the VPC of the subnet.")


def _check_name(name: str, what: str) -> None:
    if len(name) > _LONGEST_NAME:
        raise Refusal("ValidationError", f"The {what} name '{name}' cannot be longer than '{_LONGEST_NAME}' characters")
    if not re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?", name):
        raise Refusal(
            "ValidationError", f"The {what} name '{name}' can only contain characters that are alphanumeric characters "
            "and hyphens(-), and cannot begin or end with a hyphen(-)",
        )  # fmt: skip


@rule("elbv2", "CreateLoadBalancer")
def load_balancer(given: Parameters, region: str) -> None:
    name, kind = str(given["Name"]), given.get("Type") or "application"
    _check_name(name, "load balancer")
    if name.startswith("internal-"):
        raise Refusal("ValidationError", f"The load balancer name '{name}' cannot begin with 'internal-'")
    subnets = given.get("Subnets") or [each.get("SubnetId") for each in given.get("SubnetMappings") or []]
    if not subnets:
        raise Refusal("ValidationError", "A load balancer cannot be created without subnets")
    zones = _zones(region, [str(each) for each in subnets], "SubnetNotFound")
    if len(set(zones)) < len(zones):
        raise Refusal(
            "InvalidConfigurationRequest",
            "A load balancer cannot be attached to multiple subnets in the same Availability Zone",
        )
    if kind == "application" and len(zones) < 2:
        raise Refusal("ValidationError", "At least two subnets in two different Availability Zones must be specified")


@rule("elbv2", "CreateTargetGroup")
def target_group(given: Parameters, region: str) -> None:
    _check_name(str(given["Name"]), "target group")
    lambdas = given.get("TargetType") == "lambda"
    for member in () if lambdas else ("Protocol", "Port", "VpcId"):
        if not given.get(member):
            raise Refusal("ValidationError", f"A {member.lower()} must be specified")
    vpc_id = given.get("VpcId")
    if vpc_id and vpc_id not in ec2_backends[ACCOUNT_ID][region].vpcs:
        raise Refusal("ValidationError", f"The VPC ID '{vpc_id}' is not found")


@rule("elbv2", "CreateListener")
def listener(given: Parameters, region: str) -> None:
    arn, protocol = str(given["LoadBalancerArn"]), str(given.get("Protocol") or "")
    balancer = elbv2_backends[ACCOUNT_ID][region].load_balancers.get(arn)
    if balancer is None:
        return
    allowed = (
        ("HTTP", "HTTPS") if balancer.type == "application" else ("TCP", "UDP", "TLS", "TCP_UDP", "QUIC", "TCP_QUIC")
    )
    if protocol and protocol not in allowed:
        raise Refusal("ValidationError", f"Listener protocol '{protocol}' must be one of '{', '.join(allowed)}'")
    if protocol in ("HTTPS", "TLS") and not given.get("Certificates"):
        raise Refusal("ValidationError",
                      f"A certificate must be specified for {protocol} listeners")  # fmt: skip
