"""A cluster with every kind of storage on the control plane: created, updated in place, and deleted."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.census import census
from tests.cloud.assembly import InProcess
from tests.cloud.played_head import Head
from tests.cloud.test_examples import NAME, left
from tests.cloud.test_gpucluster_ways import head

BUCKET = "stored-training-data"
CLUSTER = """
name: GpuCluster
region: us-east-1
head_node: {{instance_type: m6i.large, volume_gib: 20, on_delete: delete, snapshot_days: 0}}
accounting: "off"
monitoring: {{dashboard: false}}
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}}
storage:
  - mount: /fsx
    type: fsx-lustre
    throughput_mbps_per_tib: {throughput}
    data_repositories:
      - {{path: /imagenet, s3: "s3://stored-training-data/imagenet", import: [{events}]}}
  - {{mount: /fast, type: fsx-lustre, efa: true, on_delete: retain}}
  - {{mount: /efs, type: efs}}
  - {{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150}}
s3_access:
  - {{uri: "s3://stored-training-data/imagenet"}}
  - {{uri: "s3://stored-training-data/runs", access: read-write}}
security: {{kms_key_arn: "{key}", permissions_boundary_arn: "{boundary}"}}
"""


@pytest.fixture
def security(control_plane: Any) -> Iterator[dict[str, str]]:
    kms, iam = control_plane.client("kms"), control_plane.client("iam")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    boundary = iam.create_policy(PolicyName="edge", PolicyDocument=json.dumps(everything))["Policy"]["Arn"]
    yield {"key": key, "boundary": boundary}
    iam.delete_policy(PolicyArn=boundary)
    kms.schedule_key_deletion(KeyId=key.rpartition("/")[2], PendingWindowInDays=7)


@pytest.fixture
def deployed(bootstrapped: Any, tmp_path: Path, security: dict[str, str]) -> Iterator[InProcess]:
    control_plane = bootstrapped
    found = InProcess(tmp_path / "cluster.yaml", control_plane, NAME)
    found.file.write_text(CLUSTER.format(throughput=250, events="new", **security))
    before = census(control_plane.client)
    s3 = control_plane.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    for key in ("imagenet/1", "runs/1", "secret/1"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    yield found
    found.destroy()
    _remove_what_stays(control_plane)
    for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=each["Key"])
    s3.delete_bucket(Bucket=BUCKET)
    assert left(before, census(control_plane.client)) == {}


def _remove_what_stays(control_plane: Any) -> None:
    """Deletes what remains, as its owner would in the console: file systems, then the network of one of them."""
    fsx, efs, ec2 = (control_plane.client(service) for service in ("fsx", "efs", "ec2"))
    for system in fsx.describe_file_systems()["FileSystems"]:
        fsx.delete_file_system(FileSystemId=system["FileSystemId"])
    for system in efs.describe_file_systems()["FileSystems"]:
        efs.delete_file_system(FileSystemId=system["FileSystemId"])
    ours = [{"Name": "tag:gpucluster:cluster", "Values": [NAME]}]
    for group in ec2.describe_security_groups(Filters=ours)["SecurityGroups"]:
        ec2.delete_security_group(GroupId=group["GroupId"])
    for vpc in ec2.describe_vpcs(Filters=[{"Name": "tag:Name", "Values": [f"{NAME}*"]}])["Vpcs"]:
        inside = [{"Name": "vpc-id", "Values": [vpc["VpcId"]]}]
        for subnet in ec2.describe_subnets(Filters=inside)["Subnets"]:
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])
        ec2.delete_vpc(VpcId=vpc["VpcId"])


def parameter(control_plane: Any, name: str) -> dict[str, Any]:
    text = control_plane.client("ssm").get_parameter(Name=f"/gpucluster/{NAME}/{name}")["Parameter"]["Value"]
    value: dict[str, Any] = json.loads(text)
    return value


def lustre(control_plane: Any, mount: str) -> dict[str, Any]:
    """FSx's description of the file system in the nodes' parameter; the two must agree."""
    settings = parameter(control_plane, f"storage/{mount}")
    fsx = control_plane.client("fsx")
    found: dict[str, Any] = fsx.describe_file_systems(FileSystemIds=[settings["file_system_id"]])["FileSystems"][0]
    assert (settings["dns_name"], settings["mount_name"], settings["version"]) == (
        found["DNSName"],
        found["LustreConfiguration"]["MountName"],
        found["FileSystemTypeVersion"],
    )
    return found


def test_storage_is_created_updated_and_kept(deployed: InProcess, security: dict[str, str]) -> None:
    cloud = deployed.control_plane
    with Head(cloud, NAME):
        deployed.deploy()
        _is_as_asked_for(cloud)
        _is_under_the_key(cloud, security["key"])
        with _a_compute_node(cloud) as node:
            _jobs_reach_their_prefixes_alone(cloud, node)
        before = cluster_ids(cloud)

        deployed.file.write_text(CLUSTER.format(throughput=500, events="new, changed", **security))
        deployed.deploy()
        assert cluster_ids(cloud) == before, "nothing was replaced"
        assert lustre(cloud, "fsx")["LustreConfiguration"]["PerUnitStorageThroughput"] == 500
        (link,) = cloud.client("fsx").describe_data_repository_associations()["Associations"]
        assert link["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}}
    kept = lustre(cloud, "fast")
    deployed.destroy()
    _only_what_was_to_stay_stays(cloud, kept)


def cluster_ids(control_plane: Any) -> set[str]:
    fsx, efs = control_plane.client("fsx"), control_plane.client("efs")
    links = fsx.describe_data_repository_associations()["Associations"]
    return {
        *(system["FileSystemId"] for system in fsx.describe_file_systems()["FileSystems"]),
        *(system["FileSystemId"] for system in efs.describe_file_systems()["FileSystems"]),
        *(link["AssociationId"] for link in links),
        parameter(control_plane, "storage/ram")["auth_secret_arn"],
        parameter(control_plane, "jobs")["role_arn"],
    }


def _is_as_asked_for(control_plane: Any) -> None:
    fsx, fast = lustre(control_plane, "fsx"), lustre(control_plane, "fast")
    assert (fsx["LustreConfiguration"]["DeploymentType"], fsx["StorageCapacity"]) == ("PERSISTENT_2", 4800)
    assert fsx["LustreConfiguration"]["LogConfiguration"]["Level"] == "WARN_ERROR"
    assert fast["LustreConfiguration"]["EfaEnabled"] is True
    settings = parameter(control_plane, "storage/efs")
    efs = control_plane.client("efs")
    (system,) = efs.describe_file_systems(FileSystemId=settings["file_system_id"])["FileSystems"]
    assert (system["Encrypted"], system["ThroughputMode"], system["NumberOfMountTargets"]) == (True, "elastic", 1)
    policy = json.loads(efs.describe_file_system_policy(FileSystemId=settings["file_system_id"])["Policy"])
    assert [statement["Effect"] for statement in policy["Statement"]] == ["Allow", "Deny"]
    assert efs.describe_backup_policy(FileSystemId=settings["file_system_id"])["BackupPolicy"] == {"Status": "ENABLED"}
    secret = parameter(control_plane, "storage/ram")["auth_secret_arn"]
    assert len(control_plane.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"]) == 128


def _is_under_the_key(control_plane: Any, key: str) -> None:
    efs = control_plane.client("efs").describe_file_systems()["FileSystems"]
    password = parameter(control_plane, "storage/ram")["auth_secret_arn"]
    secret = control_plane.client("secretsmanager").describe_secret(SecretId=password)
    volumes = control_plane.client("ec2").describe_volumes(Filters=[{"Name": "tag:Name", "Values": [f"{NAME}*"]}])
    used = [
        *(lustre(control_plane, mount)["KmsKeyId"] for mount in ("fsx", "fast")),
        *(system["KmsKeyId"] for system in efs),
        secret["KmsKeyId"],
        *(volume["KmsKeyId"] for volume in volumes["Volumes"]),
    ]
    assert set(used) == {key} and len(used) >= 6


@contextmanager
def _a_compute_node(control_plane: Any) -> Iterator[str]:
    """Launches a node like the head node: with its role, and with an encrypted disk."""
    ec2 = head(control_plane, "ec2")
    template = parameter(control_plane, "partitions/train")["instance_types"][0]
    chosen = {"LaunchTemplateId": template["launch_template_id"], "Version": str(template["version"])}
    run = ec2.run_instances(LaunchTemplate=chosen, MinCount=1, MaxCount=1)
    instance_id = str(run["Instances"][0]["InstanceId"])
    yield instance_id
    ec2.terminate_instances(InstanceIds=[instance_id])


def _client(control_plane: Any, service: str, keys: dict[str, str]) -> Any:
    wanted = ("access_key_id", "secret_access_key", "session_token")
    held = {name.lower().replace("_", ""): value for name, value in keys.items()}
    return control_plane.client(service, **{f"aws_{name}": held[name.replace("_", "")] for name in wanted})


def _jobs_reach_their_prefixes_alone(control_plane: Any, node: str) -> None:
    """The jobs' credentials, obtained with a compute node's."""
    with urllib.request.urlopen(f"{control_plane.endpoint_url}/_localcloud/credentials?instance_id={node}") as answer:
        held = json.load(answer)
    sts, secrets = (_client(control_plane, service, held) for service in ("sts", "secretsmanager"))
    assert secrets.get_secret_value(SecretId=parameter(control_plane, "storage/ram")["auth_secret_arn"])["SecretString"]
    role = parameter(control_plane, "jobs")["role_arn"]
    s3 = _client(control_plane, "s3", sts.assume_role(RoleArn=role, RoleSessionName="job-1")["Credentials"])
    assert s3.get_object(Bucket=BUCKET, Key="imagenet/1")["Body"].read() == b"1"
    s3.put_object(Bucket=BUCKET, Key="runs/2", Body=b"2")
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET, Prefix="runs/")["Contents"]] == [
        "runs/1",
        "runs/2",
    ]
    for call, given in (
        (s3.get_object, {"Key": "secret/1"}),
        (s3.put_object, {"Key": "imagenet/2", "Body": b"2"}),
        (s3.list_objects_v2, {"Prefix": ""}),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            call(Bucket=BUCKET, **given)


def _only_what_was_to_stay_stays(control_plane: Any, kept: dict[str, Any]) -> None:
    fsx, efs, ec2 = (control_plane.client(service) for service in ("fsx", "efs", "ec2"))
    assert [system["FileSystemId"] for system in fsx.describe_file_systems()["FileSystems"]] == [kept["FileSystemId"]]
    assert fsx.describe_data_repository_associations()["Associations"] == []
    (system,) = efs.describe_file_systems()["FileSystems"]
    assert system["NumberOfMountTargets"] == 0
    (group,) = ec2.describe_security_groups(Filters=[{"Name": "tag:gpucluster:cluster", "Values": [NAME]}])[
        "SecurityGroups"
    ]
    (interface,) = ec2.describe_network_interfaces(NetworkInterfaceIds=kept["NetworkInterfaceIds"])["NetworkInterfaces"]
    assert (interface["SubnetId"], interface["VpcId"]) == (kept["SubnetIds"][0], group["VpcId"])
    itself = [{"GroupId": group["GroupId"]}]
    named = [pair["GroupId"] for rule in group["IpPermissions"] for pair in rule["UserIdGroupPairs"]]
    assert [{"GroupId": group_id} for group_id in named] == itself, "its servers reach each other, and nobody else"
