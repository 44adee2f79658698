"""What programs read of AWS's answers, against botocore alone: the same requests, the same answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from gpucluster_node import aws, dns, ec2

PROGRAMS = Path(aws.__file__).parent
LAUNCHED = """<?xml version="1.0" encoding="UTF-8"?>
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>
  <reservationId>r-08626e73c547023b1</reservationId>
  <ownerId>111122223333</ownerId>
  <groupSet/>
  <instancesSet>
    <item>
      <instanceId>i-1234567890abcdef0</instanceId>
      <imageId>ami-1a2b3c4d</imageId>
      <instanceState><code>0</code><name>pending</name></instanceState>
      <privateDnsName>ip-10-0-0-157.ec2.internal</privateDnsName>
      <dnsName/>
      <reason/>
      <amiLaunchIndex>7</amiLaunchIndex>
      <productCodes/>
      <instanceType>p4d.24xlarge</instanceType>
      <launchTime>2026-11-23T19:48:28.000Z</launchTime>
      <placement><availabilityZone>us-east-1a</availabilityZone><groupName/><tenancy>default</tenancy></placement>
      <monitoring><state>disabled</state></monitoring>
      <subnetId>subnet-1a2b3c4d</subnetId>
      <vpcId>vpc-1a2b3c4d</vpcId>
      <privateIpAddress>10.0.0.157</privateIpAddress>
      <stateReason><code>pending</code><message>pending</message></stateReason>
      <architecture>x86_64</architecture>
      <rootDeviceType>ebs</rootDeviceType>
      <instanceLifecycle>capacity-block</instanceLifecycle>
      <capacityReservationId>cr-1234567890abcdef0</capacityReservationId>
      <clientToken>abc</clientToken>
      <tagSet>
        <item><key>aws:ec2launchtemplate:id</key><value>lt-1</value></item>
        <item><key>aws:ec2launchtemplate:version</key><value>3</value></item>
        <item><key>Name</key><value>train-1</value></item>
      </tagSet>
      <networkInterfaceSet>
        <item><networkInterfaceId>eni-1</networkInterfaceId><privateIpAddress>10.0.0.157</privateIpAddress></item>
      </networkInterfaceSet>
    </item>
  </instancesSet>
</RunInstancesResponse>"""
"""An answer in the form of EC2's reference (API_RunInstances), with the members that a Capacity Block's have."""


@pytest.fixture
def made_with(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """Who reads -> a function that makes clients: as programs do, and botocore alone."""
    for name, value in {"DEFAULT_REGION": "us-east-1", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    session = aws._session.__wrapped__()
    monkeypatch.setattr(aws, "_session", lambda: session)
    return {
        "ours": lambda each: aws._client.__wrapped__(each, 1),
        "botocore": botocore.session.get_session().create_client,
    }


def test_a_program_names_no_member_that_answers_lack() -> None:
    members = set(botocore.session.get_session().get_service_model("ec2").shape_for("Instance").members)
    source = [path.read_text() for path in PROGRAMS.rglob("*.py") if path != Path(aws.__file__)]
    named = {word for text in source for word in re.findall(r'"([A-Z][A-Za-z0-9]+)"', text)}
    assert named & members == aws.READ


def test_an_answer_has_no_other_members(made_with: Mapping[str, Any]) -> None:
    read = {}
    for who, client in made_with.items():
        api = client("ec2")
        answering(api, LAUNCHED)
        read[who] = set(api.run_instances(MinCount=1, MaxCount=1)["Instances"][0])
    assert read["ours"] == aws.READ and read["botocore"] > aws.READ


def answering(client: Any, body: str, status: int = 200) -> list[bytes]:
    """Makes the client send nothing. Returns the list of what it would have sent."""
    sent: list[bytes] = []

    def answer(request: Any, **_: object) -> AWSResponse:
        sent.append(request.body)
        made = AWSResponse(request.url, status, {}, None)
        made._content = body.encode()
        return made

    client.meta.events.register("before-send", answer)
    return sent


def test_a_launch_sends_and_reads_the_same(made_with: Mapping[str, Any]) -> None:
    found = {}
    for who, client in made_with.items():
        api = client("ec2")
        sent = answering(api, LAUNCHED)
        template = ec2.LaunchTemplate("p4d.24xlarge", "lt-1", "3")
        instances = ec2.launch(api, template, 1, 1, "abc")
        ec2.tag(api, ec2.tag_request(["i-1234567890abcdef0"], {"Name": "train-1"}))
        found[who] = (instances, sent)
    assert found["ours"] == found["botocore"]
    (instance,) = found["ours"][0]
    assert (instance.private_ip, instance.launch_index, instance.label) == ("10.0.0.157", 7, "train-1")
    assert (instance.capacity_block, instance.template) == ("cr-1234567890abcdef0", ("lt-1", "3"))


def test_names_are_written_in_the_same_way(made_with: Mapping[str, Any]) -> None:
    answer = "<ChangeResourceRecordSetsResponse><ChangeInfo/></ChangeResourceRecordSetsResponse>"
    sent = {}
    for who, client in made_with.items():
        api = client("route53")
        sent[who] = answering(api, answer)
        dns.apply(api, "Z1", dns.upsert("x.internal", {"train-1": "10.0.0.157"}))
    assert sent["ours"] == sent["botocore"] != []


NO_ZONE = """<ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type>
<Code>NoSuchHostedZone</Code><Message>No hosted zone found with ID: Z1</Message></Error></ErrorResponse>"""
NOT_APPLIED = """<InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Messages><Message>
Tried to delete resource record set, but it was not found</Message></Messages></InvalidChangeBatch>"""
"""Route 53 answers this error in a form of its own (API_ChangeResourceRecordSets): its shape is in the model."""
UNKNOWN = """<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>The instance ID 'i-1' does not
exist</Message></Error></Errors><RequestID>x</RequestID></Response>"""


@pytest.mark.parametrize(
    ("service", "call", "body"),
    [
        ("route53", lambda api: dns.apply(api, "Z1", dns.upsert("x.internal", {"a": "10.0.0.1"})), NO_ZONE),
        ("route53", lambda api: dns.apply(api, "Z1", dns.upsert("x.internal", {"a": "10.0.0.1"})), NOT_APPLIED),
        ("ssm", lambda api: api.get_parameter(Name="x"), '{"__type": "ParameterNotFound"}'),
        ("ec2", lambda api: ec2.terminate(api, ["i-1", "i-2"]), UNKNOWN),
    ],
    ids=["no-zone", "not-applied", "no-parameter", "unknown-instance"],
)
def test_errors_are_read_in_the_same_way(made_with: Mapping[str, Any], service: str, call: Any, body: str) -> None:
    found = {}
    for who, client in made_with.items():
        api = client(service)
        answering(api, body, 400)
        with pytest.raises(ClientError) as caught:
            call(api)
        found[who] = aws.brief(caught.value)
    assert found["ours"] == found["botocore"]
    assert found["ours"].partition(":")[0] in body


def test_pages_are_read_with_botocores_own_paginators(made_with: Mapping[str, Any]) -> None:
    api = made_with["ours"]("ec2")
    answering(api, LAUNCHED.replace("RunInstancesResponse", "DescribeInstancesResponse"))
    assert list(api.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 1000}))
