"""Permissions that a role needs for a customer-managed KMS key, and to assume another role."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.place import TRUST, ZONE, Place, code

Statement = dict[str, Any]
Client = Callable[[str], Any]


def allow(action: str | list[str], resource: str = "*", **condition: Any) -> Statement:
    return {"Effect": "Allow", "Action": action, "Resource": resource} | condition


@pytest.fixture
def key(place: Place) -> str:
    made = place.cloud.client("kms").create_key()["KeyMetadata"]
    return str(made["Arn"])


@pytest.fixture
def as_role(place: Place) -> Callable[..., Client]:
    """Clients of an instance whose role has these statements."""
    iam = place.cloud.client("iam")

    def make(*statements: Statement) -> Client:
        if "keeper" not in {role["RoleName"] for role in iam.list_roles()["Roles"]}:
            iam.create_role(RoleName="keeper", AssumeRolePolicyDocument=TRUST)
            iam.create_instance_profile(InstanceProfileName="keeper")
            iam.add_role_to_instance_profile(InstanceProfileName="keeper", RoleName="keeper")
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        iam.put_role_policy(RoleName="keeper", PolicyName="keeper", PolicyDocument=document)
        (instance_id,) = place.run(IamInstanceProfile={"Name": "keeper"})
        url = f"{place.cloud.endpoint_url}/_localcloud/credentials?instance_id={instance_id}"
        with urllib.request.urlopen(url) as response:
            held = json.load(response)
        return lambda service: place.cloud.client(
            service,
            aws_access_key_id=held["access_key_id"],
            aws_secret_access_key=held["secret_access_key"],
            aws_session_token=held["session_token"],
        )

    return make


def test_expired_credentials_are_refused_in_each_services_words(
    place: Place, as_role: Callable[..., Client], own: Callable[..., Any]
) -> None:
    """The codes are those of localcloud/protocol/credential_errors.py."""
    node = as_role(allow("ec2:*"), allow("ssm:*"))
    instance_id = node("sts").get_caller_identity()["Arn"].rpartition("/")[2]
    own("POST", "faults", {"kind": "expired", "instance_id": instance_id})
    for call, expected in (
        (lambda: node("ec2").describe_vpcs(), "RequestExpired"),
        (lambda: node("ssm").get_parameter(Name="x"), "ExpiredTokenException"),
        (lambda: node("s3").list_buckets(), "ExpiredToken"),
    ):
        with pytest.raises(ClientError) as error:
            call()
        assert code(error) == expected
    own("DELETE", "faults")
    node("ec2").describe_vpcs()


def via(service: str, **more: Any) -> Statement:
    return {"Condition": {"StringEquals": {"kms:ViaService": f"{service}.us-east-1.amazonaws.com"}} | more}


def test_a_secret_with_a_customer_key_needs_permission_for_the_key(
    place: Place, as_role: Callable[..., Client], key: str
) -> None:
    secrets = place.cloud.client("secretsmanager")
    secret = secrets.create_secret(Name="keyed", SecretString="x", KmsKeyId=key)["ARN"]
    read = allow("secretsmanager:GetSecretValue", secret)
    with pytest.raises(ClientError, match="kms:Decrypt"):
        as_role(read)("secretsmanager").get_secret_value(SecretId=secret)
    node = as_role(read, allow("kms:Decrypt", key, **via("secretsmanager")))
    assert node("secretsmanager").get_secret_value(SecretId="keyed")["SecretString"] == "x"
    secrets.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)


@pytest.mark.parametrize("bucket_key", [False, True])
def test_an_object_with_a_customer_key_needs_permission_for_the_key(
    place: Place, as_role: Callable[..., Client], key: str, bucket_key: bool
) -> None:
    """S3's context of the key is the object, or the bucket with S3 Bucket Keys."""
    s3, name = place.cloud.client("s3"), f"keyed-{bucket_key}".lower()
    s3.create_bucket(Bucket=name)
    s3.put_object(
        Bucket=name, Key="a/b", Body=b"x", ServerSideEncryption="aws:kms", SSEKMSKeyId=key, BucketKeyEnabled=bucket_key
    )
    context = f"arn:aws:s3:::{name}" if bucket_key else f"arn:aws:s3:::{name}/a/*"
    read = allow("s3:GetObject", f"arn:aws:s3:::{name}/*")
    ours = via("s3", StringLike={"kms:EncryptionContext:aws:s3:arn": context})
    try:
        with pytest.raises(ClientError, match="kms:Decrypt"):
            as_role(read)("s3").get_object(Bucket=name, Key="a/b")
        node = as_role(read, allow("kms:Decrypt", "arn:aws:kms:us-east-1:*:key/*", **ours))("s3")
        assert node.get_object(Bucket=name, Key="a/b")["Body"].read() == b"x"
    finally:
        s3.delete_object(Bucket=name, Key="a/b")
        s3.delete_bucket(Bucket=name)


def test_a_secret_with_awss_key_needs_no_permission_for_it(place: Place, as_role: Callable[..., Client]) -> None:
    secrets = place.cloud.client("secretsmanager")
    secret = secrets.create_secret(Name="plain", SecretString="x")["ARN"]
    node = as_role(allow("secretsmanager:GetSecretValue", secret))
    assert node("secretsmanager").get_secret_value(SecretId=secret)["SecretString"] == "x"
    secrets.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)


def test_disks_with_a_customer_key_need_permission_at_launch_and_attachment(
    place: Place, as_role: Callable[..., Client], key: str
) -> None:
    actions = ["Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"]
    use = allow([f"kms:{action}" for action in actions], key, **via("ec2"))
    grant = allow("kms:CreateGrant", key, **via("ec2", Bool={"kms:GrantIsForAWSResource": "true"}))
    disk = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1, "Encrypted": True, "KmsKeyId": key}}
    launch = {"ImageId": place.image_id, "SubnetId": place.subnet_id, "InstanceType": "m5.large"}
    wanted = launch | {"MinCount": 1, "MaxCount": 1, "BlockDeviceMappings": [disk]}
    for statements, lacks in (([use], "kms:CreateGrant"), ([grant], "kms:Decrypt")):
        with pytest.raises(ClientError, match=lacks) as error:
            as_role(allow("ec2:*"), *statements)("ec2").run_instances(**wanted)
        assert code(error) == "UnauthorizedOperation"
    node = as_role(allow("ec2:*"), use, grant)("ec2")
    (made,) = node.run_instances(**wanted)["Instances"]
    place.await_state("running", made["InstanceId"])
    volume = place.ec2.create_volume(AvailabilityZone=ZONE, Size=1, Encrypted=True, KmsKeyId=key)["VolumeId"]
    attach = {"VolumeId": volume, "InstanceId": made["InstanceId"], "Device": "/dev/sdg"}
    with pytest.raises(ClientError, match="kms:Decrypt"):
        as_role(allow("ec2:*"))("ec2").attach_volume(**attach)
    as_role(allow("ec2:*"), use, grant)("ec2").attach_volume(**attach)


def test_an_instance_whose_disks_key_its_caller_may_not_use_stops_again(
    place: Place, as_role: Callable[..., Client], key: str
) -> None:
    """https://repost.aws/knowledge-center/kms-iam-ec2-permission: EC2 accepts the call, pending, then stopped."""
    disk = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1, "Encrypted": True, "KmsKeyId": key}}
    (instance_id,) = place.run(BlockDeviceMappings=[disk])
    place.await_state("running", instance_id)
    place.ec2.stop_instances(InstanceIds=[instance_id])
    place.await_state("stopped", instance_id)
    (change,) = as_role(allow("ec2:*"))("ec2").start_instances(InstanceIds=[instance_id])["StartingInstances"]
    assert change["CurrentState"]["Name"] == "pending"
    place.await_state("stopped", instance_id)
    (found,) = place.describe(instance_id)
    reason = {"Code": "Client.InternalError", "Message": "Client.InternalError: Client error on launch"}
    assert found["StateReason"] == reason
    grant = allow("kms:CreateGrant", key, **via("ec2", Bool={"kms:GrantIsForAWSResource": "true"}))
    as_role(allow("ec2:*"), grant)("ec2").start_instances(InstanceIds=[instance_id])
    place.await_state("running", instance_id)


@pytest.mark.parametrize("lacks", ["s3:Get*", "s3:List*", "s3:PutObject", None])
def test_fsx_refuses_to_link_a_bucket_that_its_caller_cannot_use(
    place: Place, as_role: Callable[..., Client], lacks: str | None
) -> None:
    """In FSx's words, which name the permissions: localcloud/filesystems/links.py has their source."""
    s3, fsx = place.cloud.client("s3"), place.cloud.client("fsx")
    s3.create_bucket(Bucket="linked")
    system = fsx.create_file_system(
        FileSystemType="LUSTRE", FileSystemTypeVersion="2.15", StorageCapacity=1200, SubnetIds=[place.subnet_id],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]  # fmt: skip
    has = [action for action in ("s3:Get*", "s3:List*", "s3:PutObject") if action != lacks]
    whole, below = "arn:aws:s3:::linked", "arn:aws:s3:::linked/in/*"
    caller = as_role(allow(["fsx:*", "iam:*"]), allow(has, whole), allow(has, below))("fsx")
    link = {"FileSystemId": system, "FileSystemPath": "/in", "DataRepositoryPath": "s3://linked/in/"}
    try:
        if lacks is None:
            assert caller.create_data_repository_association(**link)["Association"]
            return
        with pytest.raises(ClientError) as error:
            caller.create_data_repository_association(**link)
        assert code(error) == "BadRequest"
        assert "s3:Get*, s3:List* and s3:PutObject permissions to the S3 bucket prefix." in str(error.value)
    finally:
        fsx.delete_file_system(FileSystemId=system)
        s3.delete_bucket(Bucket="linked")


def test_an_assumed_roles_policies_are_enforced(place: Place, as_role: Callable[..., Client]) -> None:
    iam = place.cloud.client("iam")
    role = iam.create_role(RoleName="job", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow("s3:GetObject", "arn:aws:s3:::jobs/own/*")]})
    iam.put_role_policy(RoleName="job", PolicyName="job", PolicyDocument=document)
    s3 = place.cloud.client("s3")
    s3.create_bucket(Bucket="jobs")
    for name in ("own/a", "other/a"):
        s3.put_object(Bucket="jobs", Key=name, Body=b"1")
    with pytest.raises(ClientError, match="sts:AssumeRole"):
        as_role(allow("s3:ListAllMyBuckets"))("sts").assume_role(RoleArn=role, RoleSessionName="job-1")
    taken = as_role(allow("sts:AssumeRole", role))("sts").assume_role(RoleArn=role, RoleSessionName="job-1")
    held = {key: taken["Credentials"][name] for key, name in (
        ("aws_access_key_id", "AccessKeyId"), ("aws_secret_access_key", "SecretAccessKey"),
        ("aws_session_token", "SessionToken"),
    )}  # fmt: skip
    job = place.cloud.client("s3", **held)
    assert job.get_object(Bucket="jobs", Key="own/a")["Body"].read() == b"1"
    with pytest.raises(ClientError) as error:
        job.get_object(Bucket="jobs", Key="other/a")
    assert code(error) == "AccessDenied"
    s3.delete_objects(Bucket="jobs", Delete={"Objects": [{"Key": "own/a"}, {"Key": "other/a"}]})
    s3.delete_bucket(Bucket="jobs")


def test_the_log_has_the_permissions_that_a_roles_call_needed(
    place: Place, as_role: Callable[..., Client], own: Callable[..., Any]
) -> None:
    node = as_role(allow("ssm:GetParameter"))
    with pytest.raises(ClientError):
        node("ssm").put_parameter(Name="/a/b", Value="1", Type="String")
    with pytest.raises(ClientError, match="ParameterNotFound"):
        node("ssm").get_parameter(Name="/a/b")
    put, got = [call for call in own("GET", "calls") if call.get("role") == "keeper"][-2:]
    resource = "arn:aws:ssm:us-east-1:123456789012:parameter/a/b"
    assert (put["denied"], got["denied"]) == (True, False)
    assert put["checks"] == [{"action": "ssm:PutParameter", "resource": resource, "keys": {}}]
    assert got["checks"] == [{"action": "ssm:GetParameter", "resource": resource, "keys": {}}]
    administrators = [call for call in own("GET", "calls") if call["caller"] == "localcloud"]
    assert administrators and not any("role" in call or "checks" in call for call in administrators)
