from __future__ import annotations

import json
from typing import Any

from validator_cases.case import cluster

from gpucluster.config.regions import partition_of
from online_cases.case import Answers, Online

KEYED = cluster(security={"kms_key_arn": "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"})
KEY_OF = "123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
OWN_KEY = "arn:aws:kms:us-east-1:123456789012:key/0ea3fef3-80a7-4778-9d8c-1c0c6EXAMPLE"
BOUNDED = cluster(security={"permissions_boundary_arn": "arn:aws:iam::123456789012:policy/boundary"})


def key(**keys: Any) -> Answers:
    return {"kms describe_key": {"KeyMetadata": {"KeyId": "1234abcd-12ab-34cd-56ef-1234567890ab", **keys}}}


def ebs_default(name: str) -> Answers:
    """Both forms as in the examples of the AWS CLI's reference, get-ebs-default-kms-key-id."""
    return {"ec2 get_ebs_default_kms_key_id": {"KmsKeyId": name}}


def policy(service: str) -> Answers:
    root = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*"}
    other = {"Effect": "Allow", "Principal": {"Service": [service]}, "Action": "kms:Decrypt"}
    return {**key(), "kms get_key_policy": {"Policy": json.dumps({"Statement": [root, other]})}}


OF_TEAM = "arn:aws:iam::123456789012:policy/team"
GRANTED = cluster(security={"policies": {"nodes": [OF_TEAM]}})

CASES: dict[str, Online | list[Online]] = {
    "kms-key-exists": Online(
        KEYED,
        key="security.kms_key_arn",
        says="the KMS key arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab does not exist",
        fails={"kms describe_key": "NotFoundException"},
        passes=key(),
    ),
    "policy-exists": Online(
        GRANTED,
        key="security.policies.nodes[0]",
        says=f"the policy {OF_TEAM} does not exist",
        fails={"iam get_policy": "NoSuchEntity"},
        passes={"iam get_policy": {"Policy": {"Arn": OF_TEAM}}},
    ),
    "ebs-default-key": Online(
        cluster(),
        key="security.kms_key_arn",
        says=f"the account encrypts disks with {OWN_KEY}; "
        "no node will start unless its policy admits the head node's role",
        fails={**key(KeyManager="CUSTOMER"), **ebs_default(OWN_KEY)},
        passes=ebs_default("alias/aws/ebs"),
    ),
    "kms-key-enabled": Online(
        KEYED,
        key="security.kms_key_arn",
        says="the key is PendingDeletion",
        fails=key(KeyState="PendingDeletion"),
        passes=key(KeyState="Enabled"),
    ),
    "kms-key-symmetric": Online(
        KEYED,
        key="security.kms_key_arn",
        says="the key is RSA_2048 for SIGN_VERIFY, not SYMMETRIC_DEFAULT for ENCRYPT_DECRYPT",
        fails=key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY"),
        passes=key(KeySpec="SYMMETRIC_DEFAULT", KeyUsage="ENCRYPT_DECRYPT"),
    ),
    "kms-key-is-yours": Online(
        KEYED,
        key="security.kms_key_arn",
        says="the key is managed by AWS for one service",
        fails=key(KeyManager="AWS"),
        passes=key(KeyManager="CUSTOMER"),
    ),
    "kms-key-admits-logs": [
        Online(
            cluster(region=region, security={"kms_key_arn": f"arn:{partition_of(region)}:kms:{region}:{KEY_OF}"}),
            key="security.kms_key_arn",
            says=f"the key's policy does not name logs.{region}.{domain}",
            fails=policy(fails),
            passes=policy(passes),
        )
        for region, domain, fails, passes in (
            ("us-east-1", "amazonaws.com", "ec2.amazonaws.com", "logs.us-east-1.amazonaws.com"),
            ("us-east-1", "amazonaws.com", "logs.us-east-2.amazonaws.com", "logs.amazonaws.com"),
            ("us-east-1", "amazonaws.com", "logs.us-east-1.amazonaws.com.cn", "logs.us-east-1.amazonaws.com"),
            ("cn-north-1", "amazonaws.com.cn", "ec2.amazonaws.com.cn", "logs.cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", "amazonaws.com.cn", "logs.cn-northwest-1.amazonaws.com.cn", "logs.amazonaws.com.cn"),
            ("cn-northwest-1", "amazonaws.com.cn", "ec2.amazonaws.com", "logs.cn-northwest-1.amazonaws.com"),
            ("us-gov-west-1", "amazonaws.com", "ec2.amazonaws.com", "logs.us-gov-west-1.amazonaws.com"),
        )
    ],
    "boundary-exists": Online(
        BOUNDED,
        key="security.permissions_boundary_arn",
        says="the policy arn:aws:iam::123456789012:policy/boundary does not exist",
        fails={"iam get_policy": "NoSuchEntity"},
        passes={"iam get_policy": {"Policy": {"PolicyName": "boundary"}}},
    ),
    "boundary-account": Online(
        BOUNDED,
        key="security.permissions_boundary_arn",
        says="belongs to the account 123456789012, yours is 210987654321",
        fails={"sts get_caller_identity": {"Account": "210987654321"}},
        passes={},
    ),
}
