"""The API with machines: an instance boots, its role and names work inside, a killed cloud leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from localcloud import state
from localcloud.machines import cgroups, leftovers
from localcloud.testing import patience
from localcloud.tests import presigned
from localcloud.tests.booted import BootedCloud, booted

USER_DATA = """#!/bin/bash
echo "resolved: $(getent ahostsv4 head.booted.internal | cut -d' ' -f1 | head -1)"
ask() { AWS_DEFAULT_REGION=us-east-1 python3 -c "import boto3; print(boto3.client('$1').$2)" 2>&1 | tail -1; }
echo "caller: $(ask sts "get_caller_identity()['Arn']")"
echo "allowed: $(ask ec2 "describe_vpcs()['Vpcs'][0]['IsDefault']")"
echo "denied: $(ask ssm "put_parameter(Name='x', Value='1', Type='String')")"
echo "unreached: $(AWS_MAX_ATTEMPTS=1 ask logs "describe_log_groups()")"
for _ in $(seq 50); do disk=$(ls /dev/disk/by-id | grep -m1 Elastic_Block_Store) && break; sleep 0.2; done
echo "disk: $disk"
echo "mounted: $(mount.nfs4 a b 2>&1)"
setpriv --reuid=65534 --regid=65534 --clear-groups sleep 600 &
echo user-data-done
"""
EC2 = {"Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
TRUST = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow"} | EC2]}
ROLE = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}


@pytest.fixture(scope="module")
def cloud() -> Iterator[BootedCloud]:
    with booted("booted", 20000) as cloud:
        yield cloud


def test_an_instance_boots_with_role_names_disk_and_fault_and_can_be_reached(cloud: BootedCloud) -> None:
    ec2, iam, route53 = cloud.client("ec2"), cloud.client("iam"), cloud.client("route53")
    subnet = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1a"]}])["Subnets"][0]
    for service in ("ec2", "ssm", "sts"):  # its only ways out
        ec2.create_vpc_endpoint(
            VpcId=subnet["VpcId"], ServiceName=f"com.amazonaws.us-east-1.{service}", VpcEndpointType="Interface",
            SubnetIds=[subnet["SubnetId"]],
        )  # fmt: skip
    zone = route53.create_hosted_zone(
        Name="booted.internal", CallerReference="1", VPC={"VPCRegion": "us-east-1", "VPCId": subnet["VpcId"]}
    )["HostedZone"]["Id"]
    record = {"Name": "head.booted.internal", "Type": "A", "TTL": 5, "ResourceRecords": [{"Value": "172.31.9.9"}]}
    changes = [{"Action": "UPSERT", "ResourceRecordSet": record}]
    route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch={"Changes": changes})
    iam.create_role(RoleName="node", AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.put_role_policy(RoleName="node", PolicyName="node", PolicyDocument=json.dumps(ROLE))
    iam.create_instance_profile(InstanceProfileName="node")
    iam.add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")
    fault = cloud.command("fault", "add", "broken", "--command", "mount.nfs4", "--message", "no such device",
                          "--tag", "role=node")  # fmt: skip
    assert fault.returncode == 0, fault.stderr
    instance = ec2.run_instances(
        ImageId=cloud.image_id(), InstanceType="m5.large", MinCount=1, MaxCount=1, SubnetId=subnet["SubnetId"],
        UserData=USER_DATA, IamInstanceProfile={"Name": "node"}, MetadataOptions={"HttpTokens": "required"},
        BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1}}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "role", "Value": "node"}]}],
    )["Instances"][0]  # fmt: skip
    instance_id = instance["InstanceId"]

    text = cloud.console(instance_id, "user-data-done")
    assert cloud.state(instance_id) == "running"
    assert "resolved: 172.31.9.9" in text
    assert f"caller: arn:aws:sts::123456789012:assumed-role/node/{instance_id}" in text
    assert "allowed: True" in text
    assert "denied: botocore.exceptions.ClientError: An error occurred (AccessDeniedException)" in text
    assert "not authorized to perform: ssm:PutParameter" in text
    assert "no endpoint of logs for it" in text
    assert "disk: nvme-Amazon_Elastic_Block_Store_vol" in text
    assert "mounted: no such device" in text

    endpoint = ec2.create_instance_connect_endpoint(SubnetId=subnet["SubnetId"])["InstanceConnectEndpoint"]
    query = f"instanceConnectEndpointId={endpoint['InstanceConnectEndpointId']}&remotePort=22"
    address = f"ws://{endpoint['DnsName']}/openTunnel?{query}&privateIpAddress={instance['PrivateIpAddress']}"
    with connect(presigned.tunnel(address, state.secret(cloud.state_dir)), proxy=None) as websocket:
        assert websocket.recv(timeout=60).startswith(b"SSH-2.0-")

    _nobody_on_this_machine_becomes_root(cloud, instance_id)
    ec2.terminate_instances(InstanceIds=[instance_id])
    deadline = patience.seconds() + 40
    while cloud.state(instance_id) != "terminated":
        assert patience.seconds() < deadline
        time.sleep(0.3)


def _nobody_on_this_machine_becomes_root(cloud: BootedCloud, instance_id: str) -> None:
    """A guest's disk has a setuid program, and a process of the guest has the same user id as the user."""
    machine = cloud.state_dir / "machines" / instance_id
    # The user data does not wait until its last program has changed its user id.
    theirs = patience.wait_for("a process of nobody in the guest", lambda: _pids_of_nobody(cloud, instance_id), 30)
    for pid in theirs:
        root = Path(f"/proc/{pid}/root")
        shutil.copy("/usr/bin/id", root / "setuid-id")  # this machine's own: the guest's needs another libc
        (root / "setuid-id").chmod(0o4755)
        assert (machine / "upper/setuid-id").stat().st_mode & stat.S_ISUID
        for path in (machine / "upper/setuid-id", machine / "root/setuid-id"):
            assert "uid=" not in _as_nobody(str(path)), path
        said = _as_nobody(str(root / "setuid-id"))
        assert "uid=65534" in said and "euid=0" not in said, said
        said = _as_nobody("/usr/bin/python3", "-c", _ASK, str(root / "run/localcloud/host.sock"))
        assert "only processes of this instance" in said or "Permission denied" in said, said


_ASK = """
import socket, sys
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
asking.sendall(b'{"op": "lustre"}\\n')
print(asking.recv(999))
"""


def _as_nobody(*words: str) -> str:
    # not setpriv, which still has root's capabilities when it looks up the program
    argv = ["runuser", "--user", "nobody", "--", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False, cwd="/")
    return done.stdout + done.stderr


def _pids_of_nobody(cloud: BootedCloud, instance_id: str) -> list[int]:
    return [pid for pid in cgroups.pids(f"lc-{cloud.id}/{instance_id}") if _runs_as_nobody(pid)]


def _runs_as_nobody(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == 65534
    except FileNotFoundError:  # it has ended since
        return False


def test_a_killed_cloud_is_cleaned_by_the_next_up(cloud: BootedCloud) -> None:
    launch = {"ImageId": cloud.image_id(), "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    instance_id = cloud.client("ec2").run_instances(**launch, UserData="#!/bin/sh\necho killed-soon\n")["Instances"][0][
        "InstanceId"
    ]
    cloud.console(instance_id, "killed-soon")
    os.kill(cloud.started["pid"], signal.SIGKILL)
    assert any(thing.startswith("network namespace") for thing in leftovers.found(cloud.state_dir))
    said = cloud.up().stderr
    assert "an earlier cloud did not end well; removed what it left: " in said
    assert f"machines/{instance_id}/root" in said
    assert cloud.client("ec2").describe_instances()["Reservations"] == []
