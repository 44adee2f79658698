"""The actions and resources for which calls outside EC2 are checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localcloud.identity.resources import checks
from localcloud.protocol.calls import Call

A = "123456789012"


def call(service: str, action: str, path: str = "/", **body: Any) -> Call:
    return Call(service, "us-east-1", action, "ASIA1", body=json.dumps(body).encode(), path=path)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("s3", "GetObject", "/b/k/l"), [("s3:GetObject", "arn:aws:s3:::b/k/l")]),
        (call("s3", "HeadObject", "/b/k"), [("s3:GetObject", "arn:aws:s3:::b/k")]),
        (call("s3", "ListObjectsV2", "/b"), [("s3:ListBucket", "arn:aws:s3:::b")]),
        (call("s3", "ListBuckets", "/"), [("s3:ListAllMyBuckets", "*")]),
        (call("s3", "UploadPart", "/b/k"), [("s3:PutObject", "arn:aws:s3:::b/k")]),
        (call("s3", "DeleteObjects", "/b"), [("s3:DeleteObject", "arn:aws:s3:::b/*")]),
        (call("ssm", "GetParameter", Name="/a/b"), [("ssm:GetParameter", f"arn:aws:ssm:us-east-1:{A}:parameter/a/b")]),
        (call("ssm", "GetParameter", Name="a:3"), [("ssm:GetParameter", f"arn:aws:ssm:us-east-1:{A}:parameter/a")]),
        (call("ssm", "GetParameters", Names=["/a", "/b"]),
         [("ssm:GetParameters", f"arn:aws:ssm:us-east-1:{A}:parameter/{name}") for name in "ab"]),
        (call("ssm", "GetParametersByPath", Path="/a/"),
         [("ssm:GetParametersByPath", f"arn:aws:ssm:us-east-1:{A}:parameter/a/")]),
        (call("ssm", "SendCommand"), [("ssm:SendCommand", "")]),
        (call("secretsmanager", "GetSecretValue", SecretId="arn:x"), [("secretsmanager:GetSecretValue", "arn:x")]),
        (call("route53", "ChangeResourceRecordSets", "/2013-04-01/hostedzone/Z1/rrset"),
         [("route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z1")]),
        (call("dynamodb", "PutItem", TableName="t"), [("dynamodb:PutItem", f"arn:aws:dynamodb:us-east-1:{A}:table/t")]),
        (call("logs", "PutLogEvents", logGroupName="g", logStreamName="s"),
         [("logs:PutLogEvents", f"arn:aws:logs:us-east-1:{A}:log-group:g:log-stream:s")]),
        (call("monitoring", "PutMetricData"), [("cloudwatch:PutMetricData", "*")]),
        (call("kms", "Decrypt", KeyId="k"), [("kms:Decrypt", f"arn:aws:kms:us-east-1:{A}:key/k")]),
        (call("kms", "Decrypt", KeyId="alias/k"), [("kms:Decrypt", f"arn:aws:kms:us-east-1:{A}:alias/k")]),
        (call("kms", "ListKeys"), [("kms:ListKeys", "")]),
        (Call("sts", "us-east-1", "AssumeRole", "ASIA1", form={"RoleArn": "arn:r"}), [("sts:AssumeRole", "arn:r")]),
        (call("sqs", "ListQueues"), [("sqs:ListQueues", "")]),
        (call("budgets", "ExecuteBudgetAction", BudgetName="b", ActionId="1"),
         [("budgets:ExecuteBudgetAction", f"arn:aws:budgets::{A}:budget/b/action/1")]),
        (call("budgets", "DescribeBudgets"), [("budgets:ViewBudget", f"arn:aws:budgets::{A}:budget/*")]),
        (Call("rds", "us-east-1", "ModifyDBInstance", "ASIA1", form={"DBInstanceIdentifier": "d"}),
         [("rds:ModifyDBInstance", f"arn:aws:rds:us-east-1:{A}:db:d")]),
        (Call("iam", "us-east-1", "DetachRolePolicy", "ASIA1", form={"RoleName": "r", "PolicyArn": "arn:p"}),
         [("iam:DetachRolePolicy", f"arn:aws:iam::{A}:role/r")]),
        (Call("iam", "us-east-1", "GetPolicy", "ASIA1", form={"PolicyArn": "arn:p"}), [("iam:GetPolicy", "arn:p")]),
    ],
)  # fmt: skip
def test_checks(made: Call, expected: list[tuple[str, str]]) -> None:
    assert [(check.action, check.resource) for check in checks(made, {})] == expected


@pytest.mark.parametrize(
    ("action", "header", "creates"),
    [("PutObject", "", "true"), ("CompleteMultipartUpload", "*", "true"), ("CopyObject", "", "true"),
     ("CreateMultipartUpload", "", "false"), ("UploadPart", "", "false")],
)  # fmt: skip
def test_keys_of_writes_to_s3(action: str, header: str, creates: str) -> None:
    """S3 user guide, "Enforce conditional writes": a policy can ask for the header where an object is created."""
    (check,) = checks(Call("s3", "us-east-1", action, "ASIA1", path="/b/k", if_none_match=header), {})
    condition = {"s3:if-none-match": (header,)} if header else {}
    assert check.keys == {"s3:ObjectCreationOperation": (creates,), **condition}


RECORDS = b"""<ChangeResourceRecordSetsRequest><ChangeBatch><Changes>
<Change><Action>UPSERT</Action><ResourceRecordSet><Name>Train-1.gpucluster.internal.</Name><Type>A</Type>
</ResourceRecordSet></Change><Change><Action>UPSERT</Action><ResourceRecordSet><Name>train-2.gpucluster.internal</Name>
<Type>A</Type></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"""


def test_keys_of_records() -> None:
    path = "/2013-04-01/hostedzone/Z1/rrset"
    (check,) = checks(Call("route53", "us-east-1", "ChangeResourceRecordSets", "ASIA1", body=RECORDS, path=path), {})
    prefix = "route53:ChangeResourceRecordSets"
    assert check.keys == {
        f"{prefix}Actions": ("UPSERT",),
        f"{prefix}RecordTypes": ("A",),
        f"{prefix}NormalizedRecordNames": ("train-1.gpucluster.internal", "train-2.gpucluster.internal"),
    }
