"""Rules for every service: actions, page tokens, tags, first states."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.tests.in_process import InProcess, refusal
from localcloud.tests.refusal_cases import new
from localcloud.validation import tag_lists
from localcloud.validation.refusal import Refusal


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
def test_an_unknown_action_is_refused(
    cloud: InProcess, service: str, target: str, form: dict[str, str], code: str
) -> None:
    status, text = cloud.plain(service, target, form)
    assert status == 400
    assert code in text


def test_a_page_token_of_an_answer_gives_the_next_page(cloud: InProcess) -> None:
    logs, prefix = cloud.client("logs"), new()
    for number in range(3):
        logs.create_log_group(logGroupName=f"{prefix}{number}")
    first = logs.describe_log_groups(logGroupNamePrefix=prefix, limit=2)
    rest = logs.describe_log_groups(logGroupNamePrefix=prefix, limit=2, nextToken=first["nextToken"])
    assert len(first["logGroups"] + rest["logGroups"]) == 3


@pytest.mark.parametrize(
    ("service", "action", "given", "code"),
    [
        ("secretsmanager", "list_secrets", {"NextToken": "bogus"}, "InvalidNextTokenException"),
        ("iam", "list_roles", {"Marker": "bogus"}, "ValidationError"),
        ("cloudformation", "describe_stacks", {"NextToken": "bogus"}, "ValidationError"),
    ],
)
def test_wrong_read_requests_are_refused(
    cloud: InProcess, service: str, action: str, given: dict[str, str], code: str
) -> None:
    call = getattr(cloud.client(service), action)
    assert refusal(lambda: call(**given))[0] == code


@pytest.mark.parametrize(
    ("service", "tags", "code"),
    [
        ("rds", [{"Key": "aws:x"}], "InvalidParameterValue"),
        ("logs", {"aws:x": "y"}, "InvalidParameterException"),
        ("kms", [{"TagKey": f"k{number}"} for number in range(51)], "TagException"),
        ("sns", [{"Key": f"k{number}"} for number in range(51)], "TagLimitExceeded"),
        ("sns", [{"Key": f"k{number}"} for number in range(50)], None),
        ("ssm", [{"Key": "awesome"}], None),
    ],
)
def test_rules_for_tags_of_most_services(service: str, tags: Any, code: str | None) -> None:
    try:
        tag_lists.check(service, "CreateAnything", {"Tags": tags})
    except Refusal as refused:
        assert refused.code == code
    else:
        assert code is None
