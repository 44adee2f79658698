"""What services other than EC2 refuse, by rules that no model says. Sources: localcloud/validation/*.py."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.tests.in_process import InProcess, refusal

ACCOUNT = "123456789012"
Case = tuple[Callable[[Any, InProcess], Any], str, int]


def new() -> str:
    return f"p-{uuid.uuid4().hex[:16]}"


def document(*statements: dict[str, Any], **more: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)} | more)


def allow(**more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"} | more


def trust(**more: Any) -> str:
    who = {"Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return document({"Effect": "Allow"} | who | more)


def long_policy(characters: int) -> str:
    return document(allow(Resource=f"arn:aws:s3:::{'b' * characters}/*"))


def role(iam: Any, **more: Any) -> str:
    name = new()
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(**more))
    return name


def arn(kind: str, name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:{kind}/{name}"


def managed(iam: Any) -> str:
    return str(iam.create_policy(PolicyName=new(), PolicyDocument=document(allow()))["Policy"]["Arn"])


def attached(iam: Any, count: int = 1) -> tuple[str, str]:
    name = role(iam)
    for _ in range(count):
        policy = managed(iam)
        iam.attach_role_policy(RoleName=name, PolicyArn=policy)
    return name, policy


def profile(iam: Any) -> str:
    name = role(iam)
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return name


def assume(sts: Any, role_name: str) -> Any:
    return sts.assume_role(RoleArn=arn("role", role_name), RoleSessionName="somebody")


IAM: dict[str, Case] = {
    "trust without JSON": (lambda c, _: c.create_role(RoleName=new(), AssumeRolePolicyDocument="{nope"),
                           "MalformedPolicyDocument", 400),
    "trust with a resource": (lambda c, _: role(c, Resource="*"), "MalformedPolicyDocument", 400),
    "trust of another action": (lambda c, _: role(c, Action="s3:GetObject"), "MalformedPolicyDocument", 400),
    "long trust": (lambda c, _: role(c, Sid="s" * 2048), "LimitExceeded", 409),
    "role twice": (lambda c, _: c.create_role(RoleName=role(c).upper(), AssumeRolePolicyDocument=trust()),
                   "EntityAlreadyExists", 409),
    "profile twice": (lambda c, _: c.create_instance_profile(InstanceProfileName=profile(c)),
                      "EntityAlreadyExists", 409),
    "long inline policy": (lambda c, _: c.put_role_policy(
        RoleName=role(c), PolicyName="x", PolicyDocument=long_policy(10240)), "LimitExceeded", 409),
    "long managed policy": (lambda c, _: c.create_policy(PolicyName=new(), PolicyDocument=long_policy(6144)),
                            "LimitExceeded", 409),
    "policy with a principal": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Principal="*"))), "MalformedPolicyDocument", 400),
    "policy without a vendor": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Action="RunInstances"))), "MalformedPolicyDocument", 400),
    "policy of another version": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(), Version="2020-01-01")), "MalformedPolicyDocument", 400),
    "eleventh policy": (lambda c, _: c.attach_role_policy(RoleName=attached(c, 10)[0], PolicyArn=managed(c)),
                        "LimitExceeded", 409),
    "policy in use": (lambda c, _: c.delete_policy(PolicyArn=attached(c)[1]), "DeleteConflict", 409),
    "role with a policy": (lambda c, _: c.delete_role(RoleName=attached(c)[0]), "DeleteConflict", 409),
    "profile with a role": (lambda c, _: c.delete_instance_profile(InstanceProfileName=profile(c)),
                            "DeleteConflict", 409),
    "tag twice": (lambda c, _: c.tag_role(RoleName=role(c), Tags=[{"Key": k, "Value": "x"} for k in "aA"]),
                  "InvalidInput", 400),
    "reserved tag": (lambda c, _: c.tag_role(RoleName=role(c), Tags=[{"Key": "aws:x", "Value": "x"}]),
                     "InvalidInput", 400),
}  # fmt: skip

STS: dict[str, Case] = {
    "role of a service": (lambda c, cloud: assume(c, role(cloud.client("iam"))), "AccessDenied", 403),
    "no role": (lambda c, _: assume(c, "nobody"), "AccessDenied", 403),
    "role of this account": (lambda c, cloud: assume(c, role(cloud.client("iam"), Principal={"AWS": ACCOUNT})),
                             "", 200),
}  # fmt: skip


def vpc(cloud: InProcess) -> str:
    return str(cloud.client("ec2").create_vpc(CidrBlock="10.78.0.0/16")["Vpc"]["VpcId"])


def subnet(cloud: InProcess, zone: str = "a", vpc_id: str = "", number: int = 1) -> str:
    made = cloud.client("ec2").create_subnet(
        VpcId=vpc_id or vpc(cloud), CidrBlock=f"10.78.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
    )
    return str(made["Subnet"]["SubnetId"])


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
    """Batches, one after the other, in a new zone."""

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
}  # fmt: skip


def with_record(client: Any, cloud: InProcess) -> str:
    zone_id, name = zone(client, cloud)
    client.change_resource_record_sets(
        HostedZoneId=zone_id, ChangeBatch={"Changes": [change("CREATE", f"a.{name}", ONE)]}
    )
    return zone_id


def put(ssm: Any, value: str = "x", name: str = "", **more: Any) -> Any:
    return ssm.put_parameter(**({"Name": name or f"/{new()}", "Value": value, "Type": "String"} | more))


def lowered(ssm: Any) -> Any:
    name = f"/{new()}"
    put(ssm, name=name, Tier="Advanced")
    return put(ssm, name=name, Tier="Standard", Overwrite=True)


def key(kms: Any) -> str:
    return str(kms.create_key()["KeyMetadata"]["KeyId"])


def disabled(kms: Any) -> str:
    key_id = key(kms)
    kms.disable_key(KeyId=key_id)
    return key_id


SSM: dict[str, Case] = {
    "4096 characters": (lambda c, _: put(c, "x" * 4096), "", 200),
    "4097 characters": (lambda c, _: put(c, "x" * 4097), "ValidationException", 400),
    "4097 characters, advanced": (lambda c, _: put(c, "x" * 4097, Tier="Advanced"), "", 200),
    "8193 characters, advanced": (lambda c, _: put(c, "x" * 8193, Tier="Advanced"), "ValidationException", 400),
    "16 levels": (lambda c, _: put(c, name="/a" * 16), "HierarchyLevelLimitExceededException", 400),
    "no slash": (lambda c, _: put(c, name="a/b"), "ValidationException", 400),
    "character": (lambda c, _: put(c, name="/a b"), "ValidationException", 400),
    "tier": (lambda c, _: lowered(c), "ValidationException", 400),
    "pattern": (lambda c, _: put(c, "x", AllowedPattern="^y$"), "ParameterPatternMismatchException", 400),
    "key": (lambda c, _: put(c, Type="SecureString", KeyId="alias/nobody"), "InvalidKeyId", 400),
    "path": (lambda c, _: c.get_parameters_by_path(Path="a"), "ValidationException", 400),
}  # fmt: skip


def deleted(secrets: Any) -> str:
    name = new()
    secrets.create_secret(Name=name, SecretString="x")
    secrets.delete_secret(SecretId=name)
    return name


SECRETS: dict[str, Case] = {
    "name": (lambda c, _: c.create_secret(Name="a b", SecretString="x"), "ValidationException", 400),
    "65537 bytes": (lambda c, _: c.create_secret(Name=new(), SecretString="x" * 65537), "ValidationException", 400),
    "two values": (lambda c, _: c.create_secret(Name=new(), SecretString="x", SecretBinary=b"x"),
                   "InvalidParameterException", 400),
    "deleted": (lambda c, _: c.put_secret_value(SecretId=deleted(c), SecretString="y"), "InvalidRequestException", 400),
    "window": (lambda c, _: c.delete_secret(SecretId="x", RecoveryWindowInDays=5), "InvalidParameterException", 400),
}  # fmt: skip

KMS: dict[str, Case] = {
    "window": (lambda c, _: c.schedule_key_deletion(KeyId=key(c), PendingWindowInDays=6), "ValidationException", 400),
    "alias": (lambda c, _: c.create_alias(AliasName="mine", TargetKeyId=key(c)), "ValidationException", 400),
    "AWS's alias": (lambda c, _: c.create_alias(AliasName="alias/aws/mine", TargetKeyId=key(c)),
                    "NotAuthorizedException", 400),
    "policy": (lambda c, _: c.create_key(Policy="{"), "MalformedPolicyDocumentException", 400),
    "disabled": (lambda c, _: c.encrypt(KeyId=disabled(c), Plaintext=b"x"), "DisabledException", 400),
}  # fmt: skip


def bucket(s3: Any) -> str:
    name = new()
    s3.create_bucket(Bucket=name)
    return name


def bucket_policy(s3: Any, **more: Any) -> Any:
    name = bucket(s3)
    mine = {"Principal": "*", "Resource": f"arn:aws:s3:::{name}/*"}
    return s3.put_bucket_policy(Bucket=name, Policy=document(allow(**(mine | more))))


def tags(count: int, **more: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": f"k{number}", "Value": "x"} | more for number in range(count)]}


S3: dict[str, Case] = {
    **{f"bucket {name}": (lambda c, _, name=name: c.create_bucket(Bucket=name), "InvalidBucketName", 400)
       for name in ("Capital-letters", "a..b", "192.168.0.1", "xn--mine", "-mine", "mine_too", "a-s3alias")},
    "digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5=digest(b"y")),
               "BadDigest", 400),
    "no digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5="eA=="),
                  "InvalidDigest", 400),
    "right digest": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", ContentMD5=digest(b"x")),
                     "", 200),
    "storage class": (lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"x", StorageClass="WARM"),
                      "InvalidStorageClass", 400),
    "long key": (lambda c, _: c.put_object(Bucket=bucket(c), Key="k" * 1025, Body=b"x"), "KeyTooLongError", 400),
    "part": (lambda c, _: c.upload_part(Bucket=bucket(c), Key="a", UploadId="u", PartNumber=10001, Body=b"x"),
             "InvalidArgument", 400),
    "policy": (lambda c, _: bucket_policy(c), "", 200),
    "policy of another bucket": (lambda c, _: bucket_policy(c, Resource="arn:aws:s3:::other/*"),
                                 "MalformedPolicy", 400),
    "policy for nobody": (lambda c, _: bucket_policy(c, Principal={"AWS": arn("role", "nobody")}),
                          "MalformedPolicy", 400),
    "policy of another service": (lambda c, _: bucket_policy(c, Action="ec2:RunInstances"), "MalformedPolicy", 400),
    "long policy": (lambda c, _: bucket_policy(c, Sid="s" * 20480), "PolicyTooLarge", 400),
    "document that breaks the schema": (lambda c, _: c.put_bucket_versioning(
        Bucket=bucket(c), VersioningConfiguration={"Status": "Perhaps"}), "MalformedXML", 400),
    "document of the schema": (lambda c, _: c.put_bucket_versioning(
        Bucket=bucket(c), VersioningConfiguration={"Status": "Enabled"}), "", 200),
    "51 tags": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(51)), "InvalidTag", 400),
    "tag twice": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(2, Key="k")), "InvalidTag", 400),
    "AWS's tag": (lambda c, _: c.put_bucket_tagging(Bucket=bucket(c), Tagging=tags(1, Key="aws:k")),
                  "InvalidTag", 400),
}  # fmt: skip


def digest(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def stream(logs: Any) -> dict[str, str]:
    names = {"logGroupName": new(), "logStreamName": "s"}
    logs.create_log_group(logGroupName=names["logGroupName"])
    logs.create_log_stream(**names)
    return names


def events(logs: Any, *times: int, message: str = "x") -> Any:
    told = [{"timestamp": time, "message": message} for time in times]
    return logs.put_log_events(**stream(logs), logEvents=told)


LOGS: dict[str, Case] = {
    "retention": (lambda c, _: c.put_retention_policy(logGroupName="g", retentionInDays=8),
                  "InvalidParameterException", 400),
    "order": (lambda c, _: events(c, 2, 1), "InvalidParameterException", 400),
    "a day": (lambda c, _: events(c, 0, 86400001), "InvalidParameterException", 400),
    "size": (lambda c, _: events(c, *[0] * 5, message="x" * 220000), "InvalidParameterException", 400),
}  # fmt: skip


def alarm(cloudwatch: Any, **more: Any) -> Any:
    wanted = {
        "AlarmName": new(), "Namespace": "n", "MetricName": "m", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Average",
    }  # fmt: skip
    return cloudwatch.put_metric_alarm(**{key: value for key, value in (wanted | more).items() if value is not None})


METRICS: dict[str, Case] = {
    "alarm": (lambda c, _: alarm(c), "", 200),
    "period": (lambda c, _: alarm(c, Period=7), "ValidationError", 400),
    "more than a day": (lambda c, _: alarm(c, Period=300, EvaluationPeriods=289), "ValidationError", 400),
    "no statistic": (lambda c, _: alarm(c, Statistic=None), "ValidationError", 400),
    "datapoints": (lambda c, _: alarm(c, DatapointsToAlarm=2), "ValidationError", 400),
    "AWS's namespace": (lambda c, _: c.put_metric_data(Namespace="AWS/EC2", MetricData=[
        {"MetricName": "m", "Value": 1}]), "InvalidParameterValue", 400),
}  # fmt: skip


def subscribe(sns: Any, protocol: str, endpoint: str) -> Any:
    topic = sns.create_topic(Name=new())["TopicArn"]
    return sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint)


SNS: dict[str, Case] = {
    "name": (lambda c, _: c.create_topic(Name="a b"), "InvalidParameter", 400),
    "attribute": (lambda c, _: c.set_topic_attributes(
        TopicArn=c.create_topic(Name=new())["TopicArn"], AttributeName="Colour", AttributeValue="red"),
        "InvalidParameter", 400),
    "mail": (lambda c, _: subscribe(c, "email", "nobody"), "InvalidParameter", 400),
    "protocol": (lambda c, _: subscribe(c, "pigeon", "x"), "InvalidParameter", 400),
    "https": (lambda c, _: subscribe(c, "https", "http://x"), "InvalidParameter", 400),
}  # fmt: skip


def database(rds: Any, **more: Any) -> Any:
    wanted = {
        "DBInstanceIdentifier": new(), "DBInstanceClass": "db.t3.micro", "Engine": "mysql", "AllocatedStorage": 20,
        "MasterUsername": "adm", "MasterUserPassword": "longenough",
    }  # fmt: skip
    return rds.create_db_instance(**(wanted | more))


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
}  # fmt: skip

BUDGETS: dict[str, Case] = {
    "somebody else's": (lambda c, _: c.create_budget(AccountId="210987654321", Budget={
        "BudgetName": new(), "TimeUnit": "MONTHLY", "BudgetType": "COST"}), "AccessDeniedException", 400),
    "eleven mails": (lambda c, _: c.create_budget(AccountId=ACCOUNT, Budget={
        "BudgetName": new(), "TimeUnit": "MONTHLY", "BudgetType": "COST",
        "BudgetLimit": {"Amount": "1", "Unit": "USD"}}, NotificationsWithSubscribers=[{
            "Notification": {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80},
            "Subscribers": [{"SubscriptionType": "EMAIL", "Address": f"a{n}@b.test"} for n in range(11)]}]),
        "CreationLimitExceededException", 400),
}  # fmt: skip


TABLES = {
    "iam": IAM, "sts": STS, "route53": ROUTE53, "ssm": SSM, "secretsmanager": SECRETS, "kms": KMS, "s3": S3,
    "logs": LOGS, "cloudwatch": METRICS, "sns": SNS, "rds": RDS, "elbv2": ELB, "efs": EFS, "budgets": BUDGETS,
}  # fmt: skip


@pytest.mark.parametrize(("service", "name"), [(service, name) for service, cases in TABLES.items() for name in cases])
def test_what_a_service_refuses(cloud: InProcess, service: str, name: str) -> None:
    call, code, status = TABLES[service][name]
    client = cloud.client(service)
    assert refusal(lambda: call(client, cloud))[:2] == (code, status)


def test_a_table_is_being_created_at_first(cloud: InProcess) -> None:
    dynamodb = cloud.client("dynamodb")
    made = dynamodb.create_table(
        TableName=new(), BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )["TableDescription"]  # fmt: skip
    assert made["TableStatus"] == "CREATING"
    assert dynamodb.describe_table(TableName=made["TableName"])["Table"]["TableStatus"] == "ACTIVE"


@pytest.mark.parametrize(
    ("service", "target", "form", "code"),
    [
        ("ssm", "AmazonSSM.MakeCoffee", {}, "UnknownOperationException"),
        ("iam", "", {"Action": "MakeCoffee", "Version": "2010-05-08"}, "InvalidAction"),
        ("ec2", "", {"Action": "MakeCoffee", "Version": "2016-11-15"}, "InvalidAction"),
    ],
)
def test_an_action_that_no_service_has(
    cloud: InProcess, service: str, target: str, form: dict[str, str], code: str
) -> None:
    status, text = cloud.plain(service, target, form)
    assert status == 400
    assert code in text
