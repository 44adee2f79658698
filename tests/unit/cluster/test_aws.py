"""The stack, the head node and the tunnel, from AWS's answers. Every stubbed answer must be used."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.cli import status, up
from gpucluster.cluster import aws
from gpucluster.config import loads
from gpucluster.errors import AwsError, CloudError, NotDeployedError

CONFIG = loads(
    "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
)
OUTPUTS = {"HeadInstanceId": "i-0123456789abcdef0", "HeadPrivateIp": "10.0.0.4", "InstanceConnectEndpointId": "eice-1"}


@pytest.fixture
def cloud():
    """An Aws with stubbed clients; stub(service, operation, answer) queues an answer."""
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    found = aws.Aws(CONFIG, session, None)
    stubbers = {}

    def stub(service, operation, answer=None, error=None, expected=None):
        if service not in stubbers:
            stubbers[service] = Stubber(found.client(service))
            stubbers[service].activate()
        if error:
            stubbers[service].add_client_error(operation, error, f"{error} it is")
        else:
            stubbers[service].add_response(operation, answer, expected)

    found.stub = stub
    yield found
    for stubber in stubbers.values():
        stubber.assert_no_pending_responses()


def stack(status, outputs):
    listed = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
    return {"Stacks": [{"StackName": "Test", "CreationTime": "2026-01-01", "StackStatus": status, "Outputs": listed}]}


def deployed(cloud, state="running", disks=None):
    cloud.stub("cloudformation", "describe_stacks", stack("CREATE_COMPLETE", OUTPUTS))
    mapped = [{"Ebs": {"VolumeId": each, "Status": at}} for each, at in (disks or {}).items()]
    instance = {"InstanceId": "i-0123456789abcdef0", "State": {"Name": state}, "BlockDeviceMappings": mapped}
    cloud.stub("ec2", "describe_instances", {"Reservations": [{"Instances": [instance]}]})


def test_head(cloud):
    deployed(cloud)
    assert cloud.head() == aws.Head("i-0123456789abcdef0", "10.0.0.4", "eice-1", "running")


def test_a_cluster_that_is_not_there(cloud):
    cloud.stub("cloudformation", "describe_stacks", error="Stack with id Test does not exist")
    with pytest.raises(NotDeployedError, match="the cluster Test in us-east-1 does not exist"):
        cloud.head()


def test_a_cluster_that_is_not_ready(cloud):
    cloud.stub("cloudformation", "describe_stacks", stack("CREATE_IN_PROGRESS", {}))
    with pytest.raises(NotDeployedError, match="is not ready: its stack is CREATE_IN_PROGRESS"):
        cloud.head()


def test_a_stopped_head_is_reported(cloud):
    deployed(cloud, "stopped")
    with pytest.raises(CloudError, match="the head node i-0123456789abcdef0 is stopped"):
        cloud.door()


def test_the_tunnel_is_signed(cloud):
    deployed(cloud)
    endpoint = {"InstanceConnectEndpointId": "eice-1", "DnsName": "eice-1.example"}
    cloud.stub("ec2", "describe_instance_connect_endpoints", {"InstanceConnectEndpoints": [endpoint]})
    url = urlsplit(cloud.door().tunnel_url())
    query = {key: value for key, (value,) in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc, url.path) == ("wss", "eice-1.example", "/openTunnel")
    assert query["instanceConnectEndpointId"] == "eice-1"
    assert (query["privateIpAddress"], query["remotePort"], query["maxTunnelDuration"]) == ("10.0.0.4", "22", "3600")
    assert "/us-east-1/ec2-instance-connect/aws4_request" in query["X-Amz-Credential"]
    assert (query["X-Amz-Expires"], query["X-Amz-SignedHeaders"]) == ("60", "host")
    assert len(query["X-Amz-Signature"]) == 64


def test_the_key_is_pushed_for_the_right_user(cloud):
    deployed(cloud)
    key = "ssh-ed25519 AAAA x" + "x" * 80
    expected = {"InstanceId": "i-0123456789abcdef0", "InstanceOSUser": "ubuntu", "SSHPublicKey": key}
    cloud.stub("ec2-instance-connect", "send_ssh_public_key", {"Success": True}, expected=expected)
    cloud.door().push_key(key)


def to_node(cloud, instances):
    deployed(cloud)
    door = cloud.door()
    names = {"tag:gpucluster:cluster": "Test", "tag:gpucluster:role": "compute"}
    filters = [
        {"Name": name, "Values": [value]} for name, value in (names | {"instance-state-name": "running"}).items()
    ]
    found = {"Reservations": [{"Instances": instances}]}
    cloud.stub("ec2", "describe_instances", found, expected={"Filters": filters})
    return door.to_node("train-1")


def test_the_way_to_a_node_leads_through_the_same_endpoint(cloud):
    tags = [{"Key": "gpucluster:node", "Value": "0:train-[2,1]"}]
    other = {"InstanceId": "i-8", "PrivateIpAddress": "10.0.0.8", "Tags": tags}
    way = to_node(
        cloud, [other, {"InstanceId": "i-9", "PrivateIpAddress": "10.0.0.9", "AmiLaunchIndex": 1, "Tags": tags}]
    )
    assert (way.instance_id, way.private_ip, way.endpoint_id) == ("i-9", "10.0.0.9", "eice-1")


def test_a_node_without_a_running_instance_is_reported(cloud):
    with pytest.raises(CloudError, match="the node train-1 has no running instance"):
        to_node(cloud, [])


def test_the_host_key_is_the_clusters(cloud):
    deployed(cloud)
    name = {"Name": "/gpucluster/Test/host-key"}
    cloud.stub("ssm", "get_parameter", {"Parameter": {"Value": "ssh-ed25519 AAAA"}}, expected=name)
    assert cloud.door().host_key() == "ssh-ed25519 AAAA"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("ExpiredToken", "log in again"),
        ("AccessDenied", "lacks this permission"),
        ("ThrottlingException", "calls its API in this region too often: try again in a minute"),
        ("ParameterNotFound", None),
    ],
)
def test_errors_of_aws_say_what_to_do(cloud, code, hint):
    cloud.stub("ssm", "get_parameter", error=code)
    with pytest.raises(AwsError, match=f"GetParameter: {code}") as caught:
        cloud.parameter("x")
    assert (hint or "") in (caught.value.hint or "")
    assert bool(hint) == bool(caught.value.hint)


class Busy(BaseHTTPRequestHandler):
    """EC2's API that refuses the first calls. The error's form: the EC2 API reference, "API request errors"."""

    refusals: ClassVar[list[tuple[int, str]]] = []
    answer = b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>'
    calls = 0

    def do_POST(self):
        Busy.calls += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = 200, self.answer
        if self.refusals:
            status, code = self.refusals.pop(0)
            error = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
            body = f"<Response><Errors>{error}</Errors></Response>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def busy(monkeypatch):
    """The client of a user's command, with an EC2 that refuses as Busy says; and the pauses between calls."""
    paused = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", paused.append)
    monkeypatch.setattr(Busy, "calls", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    yield aws.Aws(CONFIG, session, f"http://127.0.0.1:{server.server_port}").client("ec2"), paused
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("refusal", [(503, "RequestLimitExceeded"), (503, "Unavailable"), (500, "InternalError")])
def test_a_call_that_is_throttled_for_a_while_succeeds(busy, refusal):
    ec2, paused = busy
    Busy.refusals[:] = [refusal] * 5
    assert ec2.describe_instances()["Reservations"] == []
    assert len(paused) == 5 and sum(paused) <= 31


def test_a_call_that_stays_throttled_says_what_to_do(busy):
    ec2, _ = busy
    Busy.refusals[:] = [(503, "RequestLimitExceeded")] * 6
    with pytest.raises(AwsError, match="DescribeInstances: RequestLimitExceeded") as caught, aws.aws_errors():
        ec2.describe_instances()
    assert Busy.calls == 6
    assert caught.value.hint.startswith("AWS refused 6 attempts, because this account calls its API")
    Busy.refusals[:] = [(503, "Unavailable")] * 6
    with pytest.raises(AwsError) as caught, aws.aws_errors():
        ec2.describe_instances()
    assert caught.value.hint.startswith("AWS failed 6 attempts: try again in a few minutes")


def test_a_record_beside_the_cluster_file_decides_where_the_cluster_is(tmp_path):
    file = tmp_path / "cluster.yaml"
    assert aws.connect(CONFIG, file).endpoint_url is None
    (tmp_path / ".gpucluster").mkdir()
    record = {"endpoint_url": "http://127.0.0.1:1", "localcloud_name": "x", "started": True, "access_key_id": "k"}
    (tmp_path / ".gpucluster" / "Test.json").write_text(json.dumps(record | {"secret_access_key": "s"}))
    found = aws.connect(CONFIG, file)
    assert found.endpoint_url == "http://127.0.0.1:1"
    with pytest.raises(AwsError, match=r"http://127.0.0.1:1.* does not answer"):
        found.stack_status()


def test_status_tells_when_ec2_has_detached_the_data_volume(cloud, monkeypatch):
    """The kernel still lists the mount, and `df` answers: the head node looks healthy."""
    for disks, state in (
        ({"vol-0": "attached", "vol-1": "attached"}, ""),
        ({"vol-1": "attaching"}, ""),
        ({"vol-0": "attached", "vol-1": "detaching"}, "detaching"),
        ({"vol-0": "attached"}, "detached"),
    ):
        cloud.stub("cloudformation", "describe_stacks", stack("UPDATE_COMPLETE", OUTPUTS))
        deployed(cloud, disks=disks)
        cloud.stub("ssm", "get_parameter", {"Parameter": {"Value": '{"volume_id": "vol-1", "device": "/dev/sdf"}'}})
        deployed(cloud, "stopped")  # so that nothing logs in
        monkeypatch.setattr(aws, "connect", lambda config, path: cloud)
        report = status.gather(SimpleNamespace(config_path=None), CONFIG)
        said = [line for line in status.lines(report) if line.startswith("WARNING: the data volume vol-1 is ")]
        assert [line.split()[6] for line in said] == ([state] if state else []), disks
        assert all("`gpucluster head replace` makes a head node that attaches it" in line for line in said)


def test_a_head_that_is_being_replaced_may_lack_the_data_volume(cloud, monkeypatch):
    cloud.stub("cloudformation", "describe_stacks", stack("UPDATE_IN_PROGRESS", OUTPUTS))
    deployed(cloud)
    deployed(cloud, "stopped")
    monkeypatch.setattr(aws, "connect", lambda config, path: cloud)
    assert status.gather(SimpleNamespace(config_path=None), CONFIG)["volume"] == ""


@pytest.mark.parametrize(
    ("disks", "said"),
    [({"vol-1": "attached"}, ""), ({}, "WARNING: the data volume vol-1 is detached from the head node")],
)
def test_up_tells_too_that_the_data_volume_is_detached(cloud, monkeypatch, disks, said):
    """The stack is up to date."""
    deployed(cloud, disks=disks)
    cloud.stub("ssm", "get_parameter", {"Parameter": {"Value": '{"volume_id": "vol-1", "device": "/dev/sdf"}'}})
    monkeypatch.setattr(aws, "connect", lambda config, path: cloud)
    found = up.lost_volume(None, CONFIG)
    assert found.startswith(said) and ("`gpucluster head replace`" in found) is bool(said)


def test_up_does_not_fail_because_nobody_knows_about_the_data_volume(cloud, monkeypatch):
    deployed(cloud)
    cloud.stub("ssm", "get_parameter", error="InternalServerError")
    monkeypatch.setattr(aws, "connect", lambda config, path: cloud)
    assert up.lost_volume(None, CONFIG) == ""
