"""Requests that Route 53, load balancers, EFS and RDS refuse: localcloud/validation/route53.py and data.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.tests.in_process import InProcess
from localcloud.tests.refusal_cases import Case, database, hold, new, subnet, vpc


def parameter_group(rds: Any, family: str) -> str:
    name = new()
    rds.create_db_parameter_group(DBParameterGroupName=name, DBParameterGroupFamily=family, Description="x")
    return name


def zone(client: Any, cloud: InProcess) -> tuple[str, str]:
    name = f"{new()}.test."
    made = client.create_hosted_zone(
        Name=name, CallerReference=new(), VPC={"VPCRegion": "us-east-1", "VPCId": vpc(cloud)}
    )
    return str(made["HostedZone"]["Id"]), name


def change(action: str, name: str, *values: str, kind: str = "A", ttl: int | None = 60) -> dict[str, Any]:
    record = {"Name": name, "Type": kind, "TTL": ttl, "ResourceRecords": [{"Value": value} for value in values]}
    return {"Action": action, "ResourceRecordSet": {key: value for key, value in record.items() if value is not None}}


def changed(make: Callable[[str], list[list[dict[str, Any]]]]) -> Callable[[Any, InProcess], Any]:
    """Sends batches, one after the other, to a new zone."""

    def call(client: Any, cloud: InProcess) -> Any:
        zone_id, name = zone(client, cloud)
        for batch in make(name):
            answer = client.change_resource_record_sets(HostedZoneId=zone_id, ChangeBatch={"Changes": batch})
        return answer

    return call


ONE = "10.0.0.1"
ROUTE53: dict[str, Case] = {
    "characters": (changed(lambda z: [[change("CREATE", f"n{n}.{z}", f'"{"x" * 250}"', kind="TXT")
                                       for n in range(130)]]), "InvalidChangeBatch", 400),
    "characters of UPSERT": (changed(lambda z: [[change("UPSERT", f"n{n}.{z}", f'"{"x" * 250}"', kind="TXT")
                                                 for n in range(65)]]), "InvalidChangeBatch", 400),
    "500 UPSERTs": (changed(lambda z: [[change("UPSERT", f"n{n}.{z}", ONE) for n in range(500)]]), "", 200),
    "501 UPSERTs": (changed(lambda z: [[change("UPSERT", f"n{n}.{z}", ONE) for n in range(501)]]),
                    "InvalidChangeBatch", 400),
    "twice": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE)], [change("CREATE", f"A.{z}", "10.0.0.2")]]),
              "InvalidChangeBatch", 400),
    "twice in a batch": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE)] * 2]), "InvalidChangeBatch", 400),
    "deleted with another TTL": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE)],
                                                    [change("DELETE", f"a.{z}", ONE, ttl=61)]]),
                                 "InvalidChangeBatch", 400),
    "deleted without being there": (changed(lambda z: [[change("DELETE", f"a.{z}", ONE)]]), "InvalidChangeBatch", 400),
    "CNAME beside A": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE)],
                                          [change("CREATE", f"a.{z}", "b.test", kind="CNAME")]]),
                       "InvalidChangeBatch", 400),
    "CNAME at the apex": (changed(lambda z: [[change("CREATE", z, "b.test", kind="CNAME")]]),
                          "InvalidChangeBatch", 400),
    "no address": (changed(lambda z: [[change("CREATE", f"a.{z}", "10.0.0.256")]]), "InvalidChangeBatch", 400),
    "text without quotes": (changed(lambda z: [[change("CREATE", f"a.{z}", "x", kind="TXT")]]),
                            "InvalidChangeBatch", 400),
    "no TTL": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE, ttl=None)]]), "InvalidInput", 400),
    "reference twice": (lambda c, _: [c.create_hosted_zone(Name="r.test", CallerReference="again") for _ in "12"],
                        "HostedZoneAlreadyExists", 409),
    "no VPC": (lambda c, _: c.create_hosted_zone(Name="v.test", CallerReference=new(), VPC={
        "VPCRegion": "us-east-1", "VPCId": "vpc-0123456789abcdef0"}), "InvalidVPCId", 400),
    "zone with records": (lambda c, cloud: c.delete_hosted_zone(Id=with_record(c, cloud)), "HostedZoneNotEmpty", 400),
    "long label": (changed(lambda z: [[change("CREATE", f"{'x' * 64}.{z}", ONE)]]), "InvalidChangeBatch", 400),
    "label of 63": (changed(lambda z: [[change("CREATE", f"{'x' * 63}.{z}", ONE)]]), "", 200),
    "value twice": (changed(lambda z: [[change("CREATE", f"a.{z}", ONE, ONE)]]), "InvalidChangeBatch", 400),
    "no change": (lambda c, _: c.get_change(Id="C0NOBODY"), "NoSuchChange", 404),
    "page's size": (lambda c, _: c.list_hosted_zones(MaxItems="x"), "InvalidInput", 400),
}  # fmt: skip


def with_record(client: Any, cloud: InProcess) -> str:
    zone_id, name = zone(client, cloud)
    client.change_resource_record_sets(
        HostedZoneId=zone_id, ChangeBatch={"Changes": [change("CREATE", f"a.{name}", ONE)]}
    )
    return zone_id


def subnet_group(rds: Any, *subnet_ids: str) -> Any:
    return rds.create_db_subnet_group(DBSubnetGroupName=new(), DBSubnetGroupDescription="x", SubnetIds=list(subnet_ids))


RDS: dict[str, Case] = {
    "password": (lambda c, _: database(c, MasterUserPassword="short"), "InvalidParameterValue", 400),
    "password's characters": (lambda c, _: database(c, MasterUserPassword="long enough"), "InvalidParameterValue", 400),
    "class": (lambda c, _: database(c, DBInstanceClass="db.banana"), "InvalidParameterValue", 400),
    "version": (lambda c, _: database(c, EngineVersion="1.2.3"), "InvalidParameterCombination", 400),
    "identifier": (lambda c, _: database(c, DBInstanceIdentifier="a--b"), "InvalidParameterValue", 400),
    "storage": (lambda c, _: database(c, AllocatedStorage=5), "InvalidParameterValue", 400),
    "backups": (lambda c, _: database(c, BackupRetentionPeriod=36), "InvalidParameterValue", 400),
    "port": (lambda c, _: database(c, Port=80), "InvalidParameterValue", 400),
    "zone of a pair": (lambda c, _: database(c, MultiAZ=True, AvailabilityZone="us-east-1a"),
                       "InvalidParameterCombination", 400),
    "one zone": (lambda c, cloud: subnet_group(c, subnet(cloud)), "DBSubnetGroupDoesNotCoverEnoughAZs", 400),
    "no subnet": (lambda c, _: subnet_group(c, "subnet-0123456789abcdef0"), "InvalidSubnet", 400),
    "final snapshot": (lambda c, _: c.delete_db_instance(DBInstanceIdentifier="x"),
                       "InvalidParameterCombination", 400),
    "no version": (lambda c, _: database(c, Engine="mariadb"), "", 200),
    "family": (lambda c, _: parameter_group(c, "mariadb99.9"), "InvalidParameterValue", 400),
    "group of another family": (lambda c, _: database(
        c, DBParameterGroupName=parameter_group(c, "postgres16")), "InvalidParameterCombination", 400),
    "group of the family": (lambda c, _: database(
        c, DBParameterGroupName=parameter_group(c, "mysql8.0"), EngineVersion="8.0"), "", 200),
    "storage type": (lambda c, _: database(c, StorageType="gp9"), "InvalidParameterValue", 400),
    "no security group": (lambda c, _: database(c, VpcSecurityGroupIds=["sg-0123456789abcdef0"]),
                          "InvalidParameterValue", 400),
}  # fmt: skip


def balancer(elb: Any, cloud: InProcess, **more: Any) -> Any:
    return elb.create_load_balancer(**({"Name": new(), "Subnets": [subnet(cloud)], "Scheme": "internal"} | more))


ELB: dict[str, Case] = {
    "one zone": (lambda c, cloud: balancer(c, cloud), "ValidationError", 400),
    "one zone of a network": (lambda c, cloud: balancer(c, cloud, Type="network"), "", 200),
    "long name": (lambda c, cloud: balancer(c, cloud, Name="n" * 33), "ValidationError", 400),
    "name": (lambda c, cloud: balancer(c, cloud, Name="-n"), "ValidationError", 400),
    "no subnet": (lambda c, cloud: balancer(c, cloud, Subnets=["subnet-0123456789abcdef0"]), "SubnetNotFound", 400),
    "target without a port": (lambda c, _: c.create_target_group(Name=new(), Protocol="TCP"), "ValidationError", 400),
}  # fmt: skip


EFS: dict[str, Case] = {
    "throughput": (lambda c, _: c.create_file_system(CreationToken=new(), ThroughputMode="provisioned"),
                   "BadRequest", 400),
    "no subnet": (lambda c, _: c.create_mount_target(
        FileSystemId=c.create_file_system(CreationToken=new())["FileSystemId"], SubnetId="subnet-0123456789abcdef0"),
        "SubnetNotFound", 400),
    "policy": (lambda c, _: c.put_file_system_policy(
        FileSystemId=c.create_file_system(CreationToken=new())["FileSystemId"], Policy="nope"),
        "InvalidPolicyException", 400),
    "no file system": (lambda c, _: c.describe_file_system_policy(FileSystemId="fs-0123456789abcdef0"),
                       "FileSystemNotFound", 404),
}  # fmt: skip

TABLES = {"route53": ROUTE53, "rds": RDS, "elbv2": ELB, "efs": EFS}


@pytest.mark.parametrize(("service", "name"), [(service, name) for service, cases in TABLES.items() for name in cases])
def test_requests_that_the_service_refuses(cloud: InProcess, service: str, name: str) -> None:
    hold(cloud, service, TABLES[service][name])


def test_a_zone_in_the_vpc_of_another_account_is_refused_in_aws_words(cloud: InProcess) -> None:
    """aws/aws-app-mesh-examples#432: a subnet that AWS RAM shares, and a zone in its VPC."""
    theirs = {"VPCRegion": "us-east-1", "VPCId": "vpc-0fedcba9876543210"}
    with pytest.raises(ClientError, match="not authorized to make the association") as refused:
        cloud.client("route53").create_hosted_zone(Name="shared.test", CallerReference=new(), VPC=theirs)
    assert refused.value.response["Error"]["Message"] == (
        "The VPC: vpc-0fedcba9876543210 in region us-east-1 that you provided is not authorized to make the "
        "association."
    )
