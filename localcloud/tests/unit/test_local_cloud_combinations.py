"""One case for each combination of parameters, and for each rule that several services share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.model import ListShape, Shape, StructureShape
from moto.core.utils import get_service_model

from localcloud.tests.in_process import InProcess, refusal
from localcloud.tests.refusal_cases import ACCOUNT, Case, allow, arn, bucket, database, document, new, role, subnet, vpc
from localcloud.validation.combinations import ROWS, Row

BUDGET = {"BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": {"Amount": "1", "Unit": "USD"}}
NOTIFICATION = {
    "Notification": {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80},
    "Subscribers": [
        {"SubscriptionType": "SNS", "Address": f"arn:aws:sns:us-east-1:{ACCOUNT}:{name}"} for name in ("a", "b")
    ],
}
NOBODY = {"Effect": "Allow", "Principal": {"AWS": arn("role", "nobody-is-here")}, "Action": "kms:*", "Resource": "*"}


def structure(shape: Shape | None, path: str) -> StructureShape:
    for name in path.split(".") if path else ():
        assert isinstance(shape, StructureShape), path
        shape = shape.members[name.removesuffix("[]")]
        if isinstance(shape, ListShape):
            assert name.endswith("[]"), path
            shape = shape.member
    assert isinstance(shape, StructureShape), path
    return shape


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.service}-{row.actions.split()[0]}-{row.words[:40]}")
def test_every_row_names_parameters_of_the_model(row: Row) -> None:
    """A misspelt row would never apply."""
    model = get_service_model(row.service)
    for action in row.actions.split():
        members = structure(model.operation_model(action).input_shape, row.at).members
        assert set(row.names) <= set(members), action


def alarm(cloudwatch: Any, **more: Any) -> Any:
    wanted = {"AlarmName": new(), "EvaluationPeriods": 1, "Threshold": 1.0,
              "ComparisonOperator": "GreaterThanThreshold"}  # fmt: skip
    return cloudwatch.put_metric_alarm(**(wanted | more))


def metric(name: str, *, returned: bool) -> dict[str, Any]:
    stat = {"Metric": {"Namespace": "n", "MetricName": "m"}, "Period": 60, "Stat": "Sum"}
    return {"Id": name, "MetricStat": stat, "ReturnData": returned}


def lifecycle(s3: Any, **rule: Any) -> Any:
    whole = {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}} | rule
    return s3.put_bucket_lifecycle_configuration(Bucket=bucket(s3), LifecycleConfiguration={"Rules": [whole]})


def bucket_policy(s3: Any, action: str, *paths: str, **more: Any) -> Any:
    name = bucket(s3)
    resources = [f"arn:aws:s3:::{name}{path}" for path in paths]
    statement = {"Effect": "Deny", "Principal": "*", "Action": action} | ({"Resource": resources} if paths else {})
    return s3.put_bucket_policy(Bucket=name, Policy=document(statement | more))


def launch(ec2: Any, cloud: InProcess, **more: Any) -> Any:
    image = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
    image_id = cloud.client("ssm").get_parameter(Name=image)["Parameter"]["Value"]
    wanted = {"ImageId": image_id, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    return ec2.run_instances(**(wanted | more))


def record(route53: Any, kind: str, value: str, **more: Any) -> Any:
    zone = route53.create_hosted_zone(Name="refused.test.", CallerReference=new())["HostedZone"]["Id"]
    wanted = {"Name": "a.refused.test.", "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value}]} | more
    changes = [{"Action": "CREATE", "ResourceRecordSet": wanted}]
    return route53.change_resource_record_sets(HostedZoneId=zone, ChangeBatch={"Changes": changes})


def group_rule(ec2: Any, cloud: InProcess, block: str, **more: Any) -> Any:
    group = ec2.create_security_group(GroupName=new(), Description="x", VpcId=vpc(cloud))["GroupId"]
    ranges = [{"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "IpRanges": [{"CidrIp": block}]} | more]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=ranges)
    held = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]
    return held["IpPermissions"][0]["IpRanges"][0]["CidrIp"]


def topic_policy(sns: Any, **statement: Any) -> Any:
    topic = sns.create_topic(Name=new())["TopicArn"]
    whole = {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": topic} | statement
    return sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=document(whole))


def snapshots(dlm: Any, iam: Any, **more: Any) -> Any:
    schedule = {"Name": "s", "CreateRule": {"Interval": 24, "IntervalUnit": "HOURS"} | more, "RetainRule": {"Count": 1}}
    details = {"ResourceTypes": ["VOLUME"], "TargetTags": [{"Key": "a", "Value": "b"}], "Schedules": [schedule]}
    return dlm.create_lifecycle_policy(
        ExecutionRoleArn=arn("role", role(iam)), Description="x", State="ENABLED", PolicyDetails=details
    )


REFUSED: dict[str, tuple[str, *Case]] = {
    "never both": ("logs", lambda c, _: c.describe_log_groups(logGroupNamePrefix="a", logGroupNamePattern="b"),
                   "InvalidParameterException", 400),
    "only together": ("rds", lambda c, _: database(c, KmsKeyId="alias/aws/rds"), "InvalidParameterCombination", 400),
    "one of several": ("ec2", lambda c, _: c.create_placement_group(Strategy="cluster"), "MissingParameter", 400),
    "none of the values": ("ssm", lambda c, _: c.put_parameter(Name=new(), Value="x", Type="String", DataType="int"),
                           "ValidationException", 400),
    "too many": ("cloudwatch", lambda c, _: c.put_metric_data(
        Namespace="n", MetricData=[{"MetricName": "m", "Value": 1.0}] * 1001), "InvalidParameterValue", 400),
    "of another form": ("cloudwatch", lambda c, _: alarm(
        c, Namespace="n", MetricName="m", Period=60, ExtendedStatistic="median"), "ValidationError", 400),
    "in a structure of the request": ("ec2", lambda c, cloud: launch(
        c, cloud, IamInstanceProfile={"Name": "a", "Arn": arn("instance-profile", "a")}),
        "InvalidParameterCombination", 400),
    "two metrics returned": ("cloudwatch", lambda c, _: alarm(
        c, Metrics=[metric("a", returned=True), metric("b", returned=True)]), "ValidationError", 400),
    "key policy of nobody": ("kms", lambda c, _: c.create_key(Policy=document(NOBODY)),
                             "MalformedPolicyDocumentException", 400),
    "key policy that nobody may change": ("kms", lambda c, _: c.create_key(Policy=document(
        NOBODY | {"Principal": "*", "Action": "kms:Encrypt"})), "MalformedPolicyDocumentException", 400),
    "topic policy of nobody": ("sns", lambda c, _: topic_policy(c, Principal=NOBODY["Principal"]),
                               "InvalidParameter", 400),
    "topic policy for another service": ("sns", lambda c, _: topic_policy(c, Action="s3:GetObject"),
                                         "InvalidParameter", 400),
    "trust in a kind that is none": ("iam", lambda c, _: role(c, Principal={"Robot": "x"}),
                                     "MalformedPolicyDocument", 400),
    "condition without an operator": ("iam", lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Condition={"aws:username": "x"}))),
        "MalformedPolicyDocument", 400),
    "objects' action on the bucket": ("s3", lambda c, _: bucket_policy(c, "s3:GetObject", ""), "MalformedPolicy", 400),
    "bucket's action on objects": ("s3", lambda c, _: bucket_policy(c, "s3:ListBucket", "/*"), "MalformedPolicy", 400),
    "policy without a resource": ("s3", lambda c, _: bucket_policy(c, "s3:*"), "MalformedPolicy", 400),
    "rule that does nothing": ("s3", lambda c, _: lifecycle(c), "InvalidRequest", 400),
    "days and a date": ("s3", lambda c, _: lifecycle(c, Expiration={"Days": 1, "Date": "2030-01-01T00:00:00Z"}),
                        "MalformedXML", 400),
    "another owner's bucket": ("s3", lambda c, _: c.put_object(
        Bucket=bucket(c), Key="a", Body=b"", ExpectedBucketOwner="999999999999"), "AccessDenied", 403),
    "one tag twice": ("s3", lambda c, _: c.put_object(Bucket=bucket(c), Key="a", Body=b"", Tagging="a=1&a=2"),
                      "InvalidArgument", 400),
    "mail exchanger without a preference": ("route53", lambda c, _: record(c, "MX", "mail.a.test"),
                                            "InvalidChangeBatch", 400),
    "weight without an identifier": ("route53", lambda c, _: record(c, "A", "10.0.0.1", Weight=1), "InvalidInput", 400),
    "path with an empty step": ("ssm", lambda c, _: c.put_parameter(Name="/a//b", Value="x", Type="String"),
                                "ValidationException", 400),
    "25 o'clock": ("dlm", lambda c, cloud: snapshots(c, cloud.client("iam"), Times=["25:00"]),
                   "InvalidRequestException", 400),
    "gateway to a service that has none": ("ec2", lambda c, cloud: c.create_vpc_endpoint(
        VpcId=vpc(cloud), ServiceName="com.amazonaws.us-east-1.logs", VpcEndpointType="Gateway"),
        "InvalidParameter", 400),
    "groups of several interfaces": ("ec2", lambda c, cloud: c.modify_instance_attribute(
        InstanceId=two_interfaces(c, cloud), Groups=[group_of_its_vpc(c, cloud)]), "InvalidInstanceID", 400),
    "version of a template that is not there": ("ec2", lambda c, _: c.create_launch_template_version(
        LaunchTemplateName=template(c), SourceVersion="9", LaunchTemplateData={"InstanceType": "m5.large"}),
        "InvalidLaunchTemplateId.VersionNotFound", 400),
    "template that tags what no launch makes": ("ec2", lambda c, _: template(
        c, TagSpecifications=[{"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}]),
        "InvalidParameterValue", 400),
    "zone that is none": ("ec2", lambda c, _: c.describe_availability_zones(ZoneNames=["mars-1a"]),
                          "InvalidParameterValue", 400),
    "token of another request": ("ec2", lambda c, _: [
        c.create_volume(AvailabilityZone="us-east-1a", Size=size, ClientToken="refused-twice") for size in (1, 2)],
        "IdempotentParameterMismatch", 400),
    "role of a service": ("iam", lambda c, _: c.delete_role(RoleName=c.create_service_linked_role(
        AWSServiceName="autoscaling.amazonaws.com")["Role"]["RoleName"]), "UnmodifiableEntity", 400),
    "51st tag of a role": ("iam", lambda c, _: [c.tag_role(RoleName=name, Tags=[
        {"Key": f"{part}{n}", "Value": "x"} for n in range(30)]) for name in [role(c)] for part in "ab"],
        "LimitExceeded", 409),
    "key that is disabled": ("secretsmanager", lambda c, cloud: c.create_secret(
        Name=new(), SecretString="x", KmsKeyId=disabled(cloud.client("kms"))), "EncryptionFailure", 400),
    "resource policy without an effect": ("secretsmanager", lambda c, _: c.put_resource_policy(
        SecretId=c.create_secret(Name=new())["ARN"], ResourcePolicy=document({"Effect": "Perhaps"})),
        "MalformedPolicyDocumentException", 400),
    "public bucket": ("s3", lambda c, _: c.create_bucket(Bucket=new(), ACL="public-read"),
                      "InvalidBucketAclWithObjectOwnership", 400),
    "backup in 20 minutes": ("rds", lambda c, _: database(c, PreferredBackupWindow="23:50-00:10"),
                             "InvalidParameterValue", 400),
    "two topics of a notification": ("budgets", lambda c, _: c.create_budget(
        AccountId=ACCOUNT, Budget=BUDGET | {"BudgetName": new()}, NotificationsWithSubscribers=[NOTIFICATION]),
        "CreationLimitExceededException", 400),
    "all types with one code": ("ec2", lambda c, cloud: group_rule(
        c, cloud, "10.0.0.0/8", IpProtocol="icmp", FromPort=-1, ToPort=3), "InvalidParameterValue", 400),
    "long string of text": ("route53", lambda c, _: record(c, "TXT", f'"{"x" * 256}"'), "InvalidChangeBatch", 400),
    "template with a word that is none": ("ec2", lambda c, cloud: launch(
        c, cloud, SubnetId=subnet(cloud), LaunchTemplate={
            "LaunchTemplateName": template(c, MetadataOptions={"HttpTokens": "maybe"})}),
        "InvalidParameterValue", 400),
    "alarms by names and a prefix": ("cloudwatch", lambda c, _: c.describe_alarms(
        AlarmNames=["a"], AlarmNamePrefix="a"), "ValidationError", 400),
    "copy of a key without a bucket": ("s3", lambda c, _: c.copy_object(Bucket=bucket(c), Key="a", CopySource="key"),
                                       "InvalidArgument", 400),
    "pattern that is not closed": ("logs", lambda c, _: c.put_metric_filter(
        logGroupName="/none", filterName="x", filterPattern="{ $.a = 1", metricTransformations=[
            {"metricName": "m", "metricNamespace": "n", "metricValue": "1"}]), "InvalidParameterException", 400),
    "file system with a key that is not there": ("efs", lambda c, _: c.create_file_system(
        CreationToken=new(), Encrypted=True, KmsKeyId="alias/nope"), "BadRequest", 400),
    "address of a mount target that is taken": ("efs", lambda c, cloud: mounted_twice(c, cloud), "IpAddressInUse", 409),
}  # fmt: skip


def disabled(kms: Any) -> str:
    key = str(kms.create_key()["KeyMetadata"]["KeyId"])
    kms.disable_key(KeyId=key)
    return key


def template(ec2: Any, **data: Any) -> str:
    name = new()
    ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "m5.large"} | data)
    return name


def two_interfaces(ec2: Any, cloud: InProcess) -> str:
    subnet_id = subnet(cloud)
    nics = [{"DeviceIndex": index, "SubnetId": subnet_id} for index in (0, 1)]
    return str(launch(ec2, cloud, NetworkInterfaces=nics)["Instances"][0]["InstanceId"])


def group_of_its_vpc(ec2: Any, cloud: InProcess) -> str:
    newest = ec2.describe_vpcs()["Vpcs"][-1]["VpcId"]
    return str(ec2.create_security_group(GroupName=new(), Description="x", VpcId=newest)["GroupId"])


def mounted_twice(efs: Any, cloud: InProcess) -> Any:
    where = {"SubnetId": subnet(cloud), "IpAddress": "10.78.1.9"}
    for _ in range(2):
        made = efs.create_mount_target(
            FileSystemId=efs.create_file_system(CreationToken=new())["FileSystemId"], **where
        )
    return made


@pytest.mark.parametrize("name", [*REFUSED])
def test_requests_that_the_service_refuses(cloud: InProcess, name: str) -> None:
    service, call, code, status = REFUSED[name]
    client = cloud.client(service)
    assert refusal(lambda: call(client, cloud))[:2] == (code, status)


TAKEN: dict[str, tuple[str, Callable[[Any, InProcess], Any]]] = {
    "every action": ("iam", lambda c, _: c.create_policy(PolicyName=new(), PolicyDocument=document(
        allow(Action="*:*", Condition={"ForAnyValue:StringLikeIfExists": {"aws:TagKeys": ["a", "b"]},
                                       "Bool": {"aws:SecureTransport": False}})))),
    "bucket and objects": ("s3", lambda c, _: bucket_policy(c, "s3:*", "", "/*")),
    "actions on names with wildcards": ("s3", lambda c, _: bucket_policy(c, "s3:List*", "/a*")),
    "all but some objects": ("s3", lambda c, _: bucket_policy(c, "s3:GetObject*", "*")),
    "expiration after a transition": ("s3", lambda c, _: lifecycle(
        c, Expiration={"Days": 90}, Transitions=[{"Days": 30, "StorageClass": "STANDARD_IA"}])),
    "end of deletion markers": ("s3", lambda c, _: lifecycle(c, Expiration={"ExpiredObjectDeleteMarker": True})),
    "uploads given up": ("s3", lambda c, _: lifecycle(c, AbortIncompleteMultipartUpload={"DaysAfterInitiation": 7})),
    "own bucket": ("s3", lambda c, _: c.put_object(
        Bucket=bucket(c), Key="a", Body=b"", ExpectedBucketOwner=ACCOUNT, Tagging="a=1&b=")),
    "key policy of the account": ("kms", lambda c, _: c.create_key(Policy=document(
        NOBODY | {"Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:P*"}))),
    "topic policy of services": ("sns", lambda c, _: topic_policy(
        c, Principal={"Service": ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]}, Action="SNS:Publish")),
    "message for each protocol": ("sns", lambda c, _: c.publish(
        TopicArn=c.create_topic(Name=new())["TopicArn"], Message='{"default": "x"}', MessageStructure="json")),
    "one metric of several": ("cloudwatch", lambda c, _: alarm(
        c, Metrics=[metric("a", returned=True), metric("b", returned=False)])),
    "percentile with decimals": ("cloudwatch", lambda c, _: alarm(
        c, Namespace="n", MetricName="m", Period=60, ExtendedStatistic="p99.9")),
    "mail exchanger": ("route53", lambda c, _: record(c, "MX", "10 mail.a.test.")),
    "service record": ("route53", lambda c, _: record(c, "SRV", "0 5 8080 a.test.")),
    "certification authority": ("route53", lambda c, _: record(c, "CAA", '0 issue "amazon.com"')),
    "weighted record": ("route53", lambda c, _: record(c, "A", "10.0.0.1", Weight=0, SetIdentifier="a")),
    "long text in short strings": ("route53", lambda c, _: record(c, "TXT", f'"{"x" * 255}" "{"y" * 255}"')),
    "same request again": ("ec2", lambda c, _: [
        c.create_volume(AvailabilityZone="us-east-1a", Size=1, ClientToken="taken-twice") for _ in range(2)][1]),
    "backup over midnight": ("rds", lambda c, _: database(c, PreferredBackupWindow="23:45-00:15")),
    "bucket with ACLs": ("s3", lambda c, _: c.create_bucket(
        Bucket=new(), ACL="log-delivery-write", ObjectOwnership="ObjectWriter")),
    "cheap spot instances": ("ec2", lambda c, cloud: launch(c, cloud, SubnetId=subnet(cloud), InstanceMarketOptions={
        "MarketType": "spot", "SpotOptions": {"MaxPrice": ".05"}})),
    "every type of ICMPv6": ("ec2", lambda c, cloud: c.authorize_security_group_ingress(
        GroupId=c.create_security_group(GroupName=new(), Description="x", VpcId=vpc(cloud))["GroupId"],
        IpPermissions=[{"IpProtocol": "icmpv6", "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}])),
    "copy": ("s3", lambda c, _: [(c.put_object(Bucket=name, Key="a b", Body=b"x"), c.copy_object(
        Bucket=name, Key="c", CopySource={"Bucket": name, "Key": "a b"}))[1] for name in [bucket(c)]][0]),
    "pattern of words": ("logs", lambda c, _: (c.create_log_group(logGroupName="/taken"), c.put_metric_filter(
        logGroupName="/taken", filterName="x", filterPattern='?ERROR "a b"', metricTransformations=[
            {"metricName": "m", "metricNamespace": "n", "metricValue": "1"}]))[1]),
    "file system with AWS's key": ("efs", lambda c, _: c.create_file_system(
        CreationToken=new(), Encrypted=True, KmsKeyId="alias/aws/elasticfilesystem")),
    "launch by a whole template": ("ec2", lambda c, cloud: launch(c, cloud, LaunchTemplate={
        "LaunchTemplateName": template(
            c, MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
            CreditSpecification={"CpuCredits": "standard"}, InstanceType="t3.micro",
            BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {
                "VolumeSize": 100, "VolumeType": "gp3", "Iops": 3000, "Throughput": 250}}],
            NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet(cloud)}])}, InstanceType="t3.micro")),
    "daily snapshots": ("dlm", lambda c, cloud: snapshots(c, cloud.client("iam"), Times=["03:00"])),
    "compressed request": ("cloudwatch", lambda c, _: c.put_metric_data(
        Namespace="n", MetricData=[{"MetricName": "m" * 200, "Value": 1.0}] * 100)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*TAKEN])
def test_requests_that_the_service_accepts(cloud: InProcess, name: str) -> None:
    service, call = TAKEN[name]
    client = cloud.client(service)
    assert refusal(lambda: call(client, cloud))[::2] == ("", "")


def test_a_rules_cidr_block_is_shown_in_its_canonical_form(cloud: InProcess) -> None:
    assert group_rule(cloud.client("ec2"), cloud, "100.68.0.18/18") == "100.68.0.0/18"
