"""A DB instance without a cluster: it boots or fails to boot, and ends with the cloud in every case."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from bed import Bed, wait_for

from localcloud import state
from localcloud.machines import leftovers

SUBJECTS = [
    "localcloud/databases/*",
]
COVERED_BY = (
    "test_local_cloud_databases.py, test_stacks_accounting.py, test_accounting_steps.py; accounts on the head node in "
    "test_training.py"
)


def place(bed: Bed) -> None:
    """A DB subnet group in two zones, without a route to the internet."""
    ec2 = bed.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.7.{number}.0/28", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for number, zone in enumerate(("us-east-1a", "us-east-1b"))
    ]
    group = {"DBSubnetGroupName": "here", "DBSubnetGroupDescription": "two zones"}
    bed.client("rds").create_db_subnet_group(**group, SubnetIds=subnets)


def create(bed: Bed, name: str, **more: Any) -> Any:
    return bed.client("rds").create_db_instance(
        DBInstanceIdentifier=name, Engine="mariadb", EngineVersion="10.11", DBInstanceClass="db.t4g.small",
        AllocatedStorage=20, MasterUsername="admin", MasterUserPassword="secret-enough", DBSubnetGroupName="here",
        AvailabilityZone="us-east-1b", **more,
    )["DBInstance"]  # fmt: skip


def found(bed: Bed, name: str) -> dict[str, Any]:
    listed = bed.client("rds").describe_db_instances()["DBInstances"]
    return {each["DBInstanceIdentifier"]: each for each in listed}.get(name, {})


def interfaces(bed: Bed) -> list[str]:
    named = [{"Name": "description", "Values": ["RDSNetworkInterface"]}]
    shown = bed.client("ec2").describe_network_interfaces(Filters=named)["NetworkInterfaces"]
    return [each["PrivateIpAddress"] for each in shown]


def test_a_database_is_created_deleted_and_ended_with_its_cloud(empty_cloud: Bed) -> None:
    bed = empty_cloud
    place(bed)
    created = create(bed, "one", Port=3310)
    assert created["DBInstanceStatus"] == "creating" and "Endpoint" not in created
    wait_for("the database", lambda: found(bed, "one")["DBInstanceStatus"] == "available", 60)
    assert found(bed, "one")["Endpoint"]["Port"] == 3310
    assert [address.startswith("10.7.1.") for address in interfaces(bed)] == [True]
    assert bed.client("ec2").describe_instances()["Reservations"] == []

    deleted = bed.client("rds").delete_db_instance(DBInstanceIdentifier="one", SkipFinalSnapshot=True)
    assert deleted["DBInstance"]["DBInstanceStatus"] == "deleting"
    wait_for("its end", lambda: not found(bed, "one"), 30)
    assert interfaces(bed) == []

    create(bed, "two")
    wait_for("the next database", lambda: found(bed, "two")["DBInstanceStatus"] == "available", 60)
    cloud = state.read(state.state_dir(bed.name))
    assert cloud is not None
    os.kill(cloud.pid, signal.SIGKILL)
    wait_for("the cloud's death", lambda: not cloud.alive(), 10)
    assert leftovers.found(state.state_dir(bed.name))
    assert bed.localcloud("down").returncode == 0
    assert leftovers.found(state.state_dir(bed.name)) == []


def test_a_zone_without_a_subnet_is_refused(empty_cloud: Bed) -> None:
    place(empty_cloud)
    rds = empty_cloud.client("rds")
    with pytest.raises(rds.exceptions.ClientError, match="InvalidVPCNetworkStateFault"):
        rds.create_db_instance(
            DBInstanceIdentifier="lost", Engine="mariadb", EngineVersion="10.11", DBInstanceClass="db.t4g.small",
            AllocatedStorage=20, MasterUsername="admin", MasterUserPassword="secret-enough",
            DBSubnetGroupName="here", AvailabilityZone="us-east-1c",
        )  # fmt: skip
    assert found(empty_cloud, "lost") == {}
