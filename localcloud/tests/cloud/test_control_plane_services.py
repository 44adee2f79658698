"""Services for nodes besides launching: roles and their limits, names, keys, images, tunnels, smaller services."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from localcloud.testing.place import TRUST
from localcloud.tests import presigned

ROLE_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"},
        {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*",
         "Condition": {"StringEquals": {"aws:ResourceTag/cluster": "mine"}}},
        {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:*:*:instance/*",
         "Condition": {"StringEquals": {"aws:ResourceTag/cluster": "mine"}}},
        {"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": "arn:aws:ssm:*:*:parameter/mine/*"},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::role-bucket/open/*"},
        {"Effect": "Allow", "Action": "route53:ChangeResourceRecordSets", "Resource": "arn:aws:route53:::hostedzone/*"},
    ],
}  # fmt: skip


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


@pytest.fixture(scope="module")
def network(control_plane: Any) -> Iterator[dict[str, str]]:
    ec2 = control_plane.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.7.1.0/24", AvailabilityZone="us-east-1a")["Subnet"]
    yield {"vpc_id": vpc_id, "subnet_id": subnet["SubnetId"]}
    held = ec2.describe_instances(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["Reservations"]
    ec2.terminate_instances(InstanceIds=[i["InstanceId"] for reservation in held for i in reservation["Instances"]])
    for endpoint in ec2.describe_instance_connect_endpoints()["InstanceConnectEndpoints"]:
        ec2.delete_instance_connect_endpoint(InstanceConnectEndpointId=endpoint["InstanceConnectEndpointId"])
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])


@pytest.fixture(scope="module")
def image_id(control_plane: Any) -> str:
    name = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
    value: str = control_plane.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    return value


@pytest.fixture(scope="module")
def node(control_plane: Any, network: dict[str, str], image_id: str) -> Any:
    """An instance with a role; its clients sign with the role's credentials."""
    iam, ec2 = control_plane.client("iam"), control_plane.client("ec2")
    iam.create_role(RoleName="node", AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName="node", PolicyName="node", PolicyDocument=json.dumps(ROLE_POLICY))
    iam.attach_role_policy(RoleName="node", PolicyArn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")
    iam.create_instance_profile(InstanceProfileName="node")
    iam.add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "cluster", "Value": "mine"}]}]
    run = ec2.run_instances(
        ImageId=image_id, InstanceType="m5.large", SubnetId=network["subnet_id"], MinCount=1, MaxCount=1,
        IamInstanceProfile={"Name": "node"}, TagSpecifications=tags,
    )  # fmt: skip
    instance_id = run["Instances"][0]["InstanceId"]
    url = f"{control_plane.endpoint_url}/_localcloud/credentials?instance_id={instance_id}"
    with urllib.request.urlopen(url) as response:
        held = json.load(response)

    class Node:
        id = instance_id
        private_ip = run["Instances"][0]["PrivateIpAddress"]

        def client(self, service: str) -> Any:
            return control_plane.client(
                service,
                aws_access_key_id=held["access_key_id"],
                aws_secret_access_key=held["secret_access_key"],
                aws_session_token=held["session_token"],
            )

    return Node()


def test_a_node_can_ask_sts_for_its_role(node: Any) -> None:
    identity = node.client("sts").get_caller_identity()
    assert identity["Arn"] == f"arn:aws:sts::123456789012:assumed-role/node/{node.id}"


def test_a_node_may_do_what_its_role_allows(node: Any, control_plane: Any) -> None:
    control_plane.client("ssm").put_parameter(Name="/mine/a", Value="1", Type="String", Overwrite=True)
    s3 = control_plane.client("s3")
    s3.create_bucket(Bucket="role-bucket")
    s3.put_object(Bucket="role-bucket", Key="open/x", Body=b"1")
    assert node.client("ec2").describe_instances()["Reservations"]
    assert node.client("ssm").get_parameter(Name="/mine/a")["Parameter"]["Value"] == "1"
    assert node.client("s3").get_object(Bucket="role-bucket", Key="open/x")["Body"].read() == b"1"
    node.client("ec2").create_tags(Resources=[node.id], Tags=[{"Key": "Name", "Value": "me"}])


@pytest.mark.parametrize(
    ("service", "method", "arguments", "expected", "action"),
    [
        ("ec2", "run_instances", {"ImageId": "?", "MinCount": 1, "MaxCount": 1}, "UnauthorizedOperation",
         "ec2:RunInstances"),
        ("ec2", "create_vpc", {"CidrBlock": "10.9.0.0/16"}, "UnauthorizedOperation", "ec2:CreateVpc"),
        ("ssm", "put_parameter", {"Name": "/mine/a", "Value": "2", "Type": "String"}, "AccessDeniedException",
         "ssm:PutParameter"),
        ("s3", "put_object", {"Bucket": "role-bucket", "Key": "open/x", "Body": b"2"}, "AccessDenied", "s3:PutObject"),
        ("s3", "get_object", {"Bucket": "role-bucket", "Key": "closed/x"}, "AccessDenied", "s3:GetObject"),
        ("secretsmanager", "get_secret_value", {"SecretId": "key"}, "AccessDeniedException",
         "secretsmanager:GetSecretValue"),
        ("iam", "list_roles", {}, "AccessDenied", "iam:ListRoles"),
        ("route53", "list_hosted_zones", {}, "AccessDenied", "route53:ListHostedZones"),
        ("sqs", "list_queues", {}, "AccessDeniedException", "sqs:ListQueues"),
    ],
)  # fmt: skip
def test_a_missing_permission_is_denied_with_awss_message(
    node: Any, image_id: str, service: str, method: str, arguments: dict[str, Any], expected: str, action: str
) -> None:
    filled = {key: image_id if value == "?" else value for key, value in arguments.items()}
    with pytest.raises(ClientError) as error:
        getattr(node.client(service), method)(**filled)
    message = error.value.response["Error"]["Message"]
    assert code(error) == expected
    assert (
        f"User: arn:aws:sts::123456789012:assumed-role/node/{node.id} is not authorized to perform: {action}" in message
    )
    assert f"because no identity-based policy allows the {action} action" in message


def test_a_node_can_terminate_only_instances_with_its_clusters_tag(
    node: Any, control_plane: Any, network: dict[str, str], image_id: str
) -> None:
    def launch(cluster: str) -> str:
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "cluster", "Value": cluster}]}]
        run = control_plane.client("ec2").run_instances(
            ImageId=image_id, InstanceType="m5.large", SubnetId=network["subnet_id"], MinCount=1, MaxCount=1,
            TagSpecifications=tags,
        )  # fmt: skip
        return str(run["Instances"][0]["InstanceId"])

    mine, other = launch("mine"), launch("other")
    node.client("ec2").terminate_instances(InstanceIds=[mine])
    with pytest.raises(ClientError) as error:
        node.client("ec2").terminate_instances(InstanceIds=[other])
    assert code(error) == "UnauthorizedOperation"
    assert f"instance/{other}" in error.value.response["Error"]["Message"]
    control_plane.client("ec2").terminate_instances(InstanceIds=[other])


LAUNCHER_POLICY = [
    {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*",
     "Condition": {"ArnLike": {"ec2:LaunchTemplate": "?template"}}},
    {"Effect": "Allow", "Action": "ec2:CreateFleet", "Resource": "*"},
    {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*",
     "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}},
    {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::*:role/launcher",
     "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}},
]  # fmt: skip


def test_launching_through_a_fleet_needs_every_permission_that_aws_asks_for(
    control_plane: Any, network: dict[str, str], image_id: str
) -> None:
    iam, ec2 = control_plane.client("iam"), control_plane.client("ec2")
    iam.create_role(RoleName="launcher", AssumeRolePolicyDocument=TRUST)
    profile = iam.create_instance_profile(InstanceProfileName="launcher")["InstanceProfile"]["Arn"]
    iam.add_role_to_instance_profile(InstanceProfileName="launcher", RoleName="launcher")
    data = {
        "ImageId": image_id, "InstanceType": "m5.large", "IamInstanceProfile": {"Arn": profile},
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": network["subnet_id"]}],
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "cluster", "Value": "mine"}]}],
    }  # fmt: skip
    template = ec2.create_launch_template(LaunchTemplateName="launcher", LaunchTemplateData=data)["LaunchTemplate"]
    template_arn = f"arn:aws:ec2:*:*:launch-template/{template['LaunchTemplateId']}"
    policy = json.loads(json.dumps(LAUNCHER_POLICY).replace("?template", template_arn))
    chosen = {"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}
    run = ec2.run_instances(LaunchTemplate=chosen, MinCount=1, MaxCount=1)
    url = f"{control_plane.endpoint_url}/_localcloud/credentials?instance_id={run['Instances'][0]['InstanceId']}"
    with urllib.request.urlopen(url) as response:
        held = json.load(response)
    node = control_plane.client(
        "ec2", aws_access_key_id=held["access_key_id"], aws_secret_access_key=held["secret_access_key"],
        aws_session_token=held["session_token"],
    )  # fmt: skip

    def fleet() -> Any:
        return node.create_fleet(
            Type="instant", LaunchTemplateConfigs=[{"LaunchTemplateSpecification": chosen}],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        )  # fmt: skip

    for missing in policy:
        statements = [statement for statement in policy if statement is not missing]
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        iam.put_role_policy(RoleName="launcher", PolicyName="p", PolicyDocument=document)
        with pytest.raises(ClientError) as error:
            fleet()
        assert f"is not authorized to perform: {missing['Action']}" in error.value.response["Error"]["Message"]
    document = json.dumps({"Version": "2012-10-17", "Statement": policy})
    iam.put_role_policy(RoleName="launcher", PolicyName="p", PolicyDocument=document)
    assert fleet()["Instances"]
    with pytest.raises(ClientError) as error:  # not from our launch template
        node.run_instances(ImageId=image_id, MinCount=1, MaxCount=1, SubnetId=network["subnet_id"])
    assert code(error) == "UnauthorizedOperation"


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id", "/dev/sda1"),
        ("/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id", "/dev/sda1"),
        (
            "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
            "/dev/sda1",
        ),
        ("/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id", "/dev/sda1"),
        ("/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", "/dev/xvda"),
    ],
)
def test_public_image_parameters_name_images_that_exist(control_plane: Any, region: str, name: str, root: str) -> None:
    value = control_plane.client("ssm", region).get_parameter(Name=name)["Parameter"]["Value"]
    (image,) = control_plane.client("ec2", region).describe_images(ImageIds=[value])["Images"]
    assert (image["RootDeviceName"], image["Architecture"], image["State"]) == (root, "x86_64", "available")


def test_a_bucket_policy_that_requires_tls_does_not_block_the_cloud(control_plane: Any) -> None:
    s3 = control_plane.client("s3")
    s3.create_bucket(Bucket="tls-bucket")
    resources = ["arn:aws:s3:::tls-bucket", "arn:aws:s3:::tls-bucket/*"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": resources}
    insecure = deny | {"Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    s3.put_bucket_policy(Bucket="tls-bucket", Policy=json.dumps({"Version": "2012-10-17", "Statement": [insecure]}))
    s3.put_object(Bucket="tls-bucket", Key="a", Body=b"1")
    assert s3.get_object(Bucket="tls-bucket", Key="a")["Body"].read() == b"1"


def test_private_zones_are_shown_as_private(control_plane: Any, network: dict[str, str]) -> None:
    route53 = control_plane.client("route53")
    vpc = {"VPCRegion": "us-east-1", "VPCId": network["vpc_id"]}
    zone = route53.create_hosted_zone(Name="mine.internal", CallerReference="1", VPC=vpc)["HostedZone"]
    assert zone["Config"]["PrivateZone"] is True
    assert route53.get_hosted_zone(Id=zone["Id"])["VPCs"] == [vpc]


def test_cloudtrail_answers_the_cdk_cli(control_plane: Any) -> None:
    assert control_plane.client("cloudtrail").lookup_events()["Events"] == []


def test_a_call_that_the_cloud_does_not_know_is_a_clear_client_error(control_plane: Any) -> None:
    with pytest.raises(ClientError, match="the local cloud does not know this call") as error:
        control_plane.client("ec2").get_spot_placement_scores(TargetCapacity=1)
    assert code(error) == "InvalidAction"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_ssh_keys_are_pushed_to_running_instances_only(control_plane: Any, node: Any) -> None:
    connect_api = control_plane.client("ec2-instance-connect")
    key = {"InstanceOSUser": "ubuntu", "SSHPublicKey": "ssh-ed25519 AAAA" + "A" * 64}
    assert connect_api.send_ssh_public_key(InstanceId=node.id, **key)["Success"] is True
    with pytest.raises(ClientError) as error:
        connect_api.send_ssh_public_key(InstanceId="i-00000000000000000", **key)
    assert code(error) == "EC2InstanceNotFoundException"


@pytest.fixture(scope="module")
def endpoint(control_plane: Any, network: dict[str, str]) -> Any:
    ec2 = control_plane.client("ec2")
    made = ec2.create_instance_connect_endpoint(SubnetId=network["subnet_id"])["InstanceConnectEndpoint"]
    ids = [made["InstanceConnectEndpointId"]]
    (found,) = ec2.describe_instance_connect_endpoints(InstanceConnectEndpointIds=ids)["InstanceConnectEndpoints"]
    assert found["State"] == "create-complete"
    return found


@pytest.mark.parametrize(
    ("changes", "close_code", "reason"),
    [
        ({"instanceConnectEndpointId": "eice-0"}, 1008, "does not exist"),
        ({"privateIpAddress": "10.8.0.1"}, 1008, "not in the endpoint's VPC"),
        ({"privateIpAddress": "nowhere"}, 1008, "is not an address"),
        ({"remotePort": "80"}, 1008, "remotePort 80 is not allowed"),
        ({"maxTunnelDuration": "7200"}, 1008, "1 to 3600"),
        ({}, 1011, "--no-boot"),
    ],
)
def test_tunnels_are_refused_with_a_reason(
    control_plane: Any, endpoint: Any, node: Any, changes: dict[str, str], close_code: int, reason: str
) -> None:
    asked = {
        "instanceConnectEndpointId": endpoint["InstanceConnectEndpointId"],
        "privateIpAddress": node.private_ip, "remotePort": "22", "maxTunnelDuration": "60",
    } | changes  # fmt: skip
    query = "&".join(f"{key}={value}" for key, value in asked.items())
    url = f"ws://{endpoint['DnsName']}/openTunnel?{query}"
    with (
        connect(presigned.tunnel(url, control_plane.secret), proxy=None) as websocket,
        pytest.raises(ConnectionClosed) as closed,
    ):
        websocket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == close_code
    assert reason in closed.value.rcvd.reason


def test_a_vpc_can_have_one_connect_endpoint(control_plane: Any, endpoint: Any) -> None:
    with pytest.raises(ClientError) as error:
        control_plane.client("ec2").create_instance_connect_endpoint(SubnetId=endpoint["SubnetId"])
    assert code(error) == "InstanceConnectEndpointLimitExceeded"


def test_the_api_log_names_callers_errors_and_instances(control_plane: Any, node: Any) -> None:
    with pytest.raises(ClientError):
        node.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")
    control_plane.client("ec2").describe_instances(InstanceIds=[node.id])
    with urllib.request.urlopen(f"{control_plane.endpoint_url}/_localcloud/calls?since=0") as response:
        calls = json.load(response)
    denied = [c for c in calls if c["action"] == "CreateVpc" and c["caller"] == node.id][-1]
    assert (denied["status"], denied["error"]) == (403, "UnauthorizedOperation")
    launched = [c for c in calls if c["action"] == "RunInstances" and node.id in c["instance_ids"]]
    assert [c["caller"] for c in launched] == ["localcloud"]
    assert [c["instance_ids"] for c in calls if c["action"] == "DescribeInstances"][-1] == [node.id]
    assert {"time", "service", "action", "caller", "status", "error", "instance_ids"} == set(calls[0])
    log = (control_plane.state_dir / "api.jsonl").read_text().splitlines()
    assert json.loads(log[0]) == calls[0]


def test_nothing_listens_beyond_loopback(control_plane: Any) -> None:
    port = int(control_plane.endpoint_url.rpartition(":")[2])
    with socket.socket() as other:
        other.bind(("127.0.0.2", port))  # free: the server listens only on 127.0.0.1
