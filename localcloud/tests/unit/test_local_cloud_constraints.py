"""Requests that violate their service's model: each service's code, and AWS's message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.tests.in_process import InProcess, refusal

LONG = "r" * 65
# service, call, code, part of the message
CASES: list[tuple[str, Callable[[Any], Any], str, str]] = [
    # awsdocs/aws-cloudformation-user-guide#439
    ("fsx", lambda c: c.create_file_system(), "BadRequest",
     "2 validation errors detected: Value null at 'fileSystemType' failed to satisfy constraint: Member must not be "
     "null; Value null at 'subnetIds' failed to satisfy constraint: Member must not be null"),
    # aws/aws-sdk-js#3321
    ("efs", lambda c: c.delete_file_system(FileSystemId="fake-id"), "ValidationException",
     "1 validation error detected: Value 'fake-id' at 'fileSystemId' failed to satisfy constraint: "
     "Member must satisfy regular expression pattern"),
    # amazon-archives/cloudwatch-logs-centralize-logs#5
    ("logs", lambda c: c.put_log_events(logGroupName="g", logStreamName="s", logEvents=[{"message": "x"}]),
     "InvalidParameterException",
     "Value null at 'logEvents.1.member.timestamp' failed to satisfy constraint: Member must not be null"),
    # mludvig/aws-ssm-tools#44
    ("ec2-instance-connect",
     lambda c: c.send_ssh_public_key(InstanceId="mi-0123456789", InstanceOSUser="u", SSHPublicKey="s" * 80),
     "InvalidArgsException", "Value 'mi-0123456789' at 'instanceId' failed to satisfy constraint"),
    ("iam", lambda c: c.create_role(RoleName=LONG, AssumeRolePolicyDocument="{}"), "ValidationError",
     f"Value '{LONG}' at 'roleName' failed to satisfy constraint: Member must have length less than or equal to 64"),
    ("dynamodb",
     lambda c: c.batch_write_item(RequestItems={"tab": [{"DeleteRequest": {"Key": {"k": {"S": "v"}}}}] * 26}),
     "ValidationException", "at 'requestItems.tab.member' failed to satisfy constraint: Member must have length less"),
    # pcorliss/ruby_route_53#3 has the words
    ("route53",
     lambda c: c.change_resource_record_sets(HostedZoneId="Z1", ChangeBatch={"Changes": [
         {"Action": "CREATE", "ResourceRecordSet": {"Name": "a.b.", "Type": "a"}}]}),
     "InvalidInput", "Value 'a' at 'changeBatch.changes.1.member.resourceRecordSet.type' failed to satisfy constraint: "
     "Member must satisfy enum value set: ["),
    ("cloudwatch", lambda c: c.put_metric_alarm(AlarmName="a", EvaluationPeriods=0,
                                                ComparisonOperator="GreaterThanThreshold"),
     "ValidationError", "Member must have value greater than or equal to 1"),
    ("ssm", lambda c: c.get_parameters(Names=["a"] * 11), "ValidationException",
     "Member must have length less than or equal to 10"),
    ("sts", lambda c: c.assume_role(RoleArn="arn:aws:iam::123456789012:role/r", RoleSessionName="x",
                                    DurationSeconds=60), "ValidationError", "greater than or equal to 900"),
]  # fmt: skip


@pytest.mark.parametrize(("service", "call", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_a_request_that_violates_its_model_gets_its_services_error(
    cloud: InProcess, service: str, call: Callable[[Any], Any], code: str, words: str
) -> None:
    answered, status, message = refusal(lambda: call(cloud.client(service)))
    assert (answered, status) == (code, 400), message
    assert words in message


def test_a_secret_value_is_not_in_the_message(cloud: InProcess) -> None:
    _, _, message = refusal(lambda: cloud.client("ssm").put_parameter(Name="/n", Value="hidden", Type="Nope", Tier="x"))
    assert "hidden" not in message
    assert "Value 'Nope' at 'type'" in message
