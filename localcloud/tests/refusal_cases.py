"""Resources that the tests of refusals create first, and the check of one case: the call, the code, the HTTP status."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

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


def role(iam: Any, **more: Any) -> str:
    name = new()
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(**more))
    return name


def arn(kind: str, name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:{kind}/{name}"


def managed(iam: Any) -> str:
    return str(iam.create_policy(PolicyName=new(), PolicyDocument=document(allow()))["Policy"]["Arn"])


def vpc(cloud: InProcess) -> str:
    return str(cloud.client("ec2").create_vpc(CidrBlock="10.78.0.0/16")["Vpc"]["VpcId"])


def subnet(cloud: InProcess, zone: str = "a", vpc_id: str = "", number: int = 1) -> str:
    made = cloud.client("ec2").create_subnet(
        VpcId=vpc_id or vpc(cloud), CidrBlock=f"10.78.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
    )
    return str(made["Subnet"]["SubnetId"])


def key(kms: Any) -> str:
    return str(kms.create_key()["KeyMetadata"]["KeyId"])


def database(rds: Any, **more: Any) -> Any:
    wanted = {
        "DBInstanceIdentifier": new(), "DBInstanceClass": "db.t3.micro", "Engine": "mysql", "AllocatedStorage": 20,
        "MasterUsername": "adm", "MasterUserPassword": "longenough",
    }  # fmt: skip
    return rds.create_db_instance(**(wanted | more))


def bucket(s3: Any) -> str:
    name = new()
    s3.create_bucket(Bucket=name)
    return name


def hold(cloud: InProcess, service: str, case: Case) -> None:
    call, code, status = case
    client = cloud.client(service)
    assert refusal(lambda: call(client, cloud))[:2] == (code, status)
