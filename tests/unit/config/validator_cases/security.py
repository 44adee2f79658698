from __future__ import annotations

from validator_cases.case import Case, Keys, cluster

KEY = "arn:aws:kms:{region}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def secured(key: str) -> Keys:
    return cluster(security={"kms_key_arn": key})


def bounded(policy: str) -> Keys:
    return cluster(security={"permissions_boundary_arn": policy})


CASES: dict[str, Case | list[Case]] = {
    "kms-key-region": Case(
        fails=secured(KEY.format(region="us-west-2")),
        key="security.kms_key_arn",
        says="the key is in us-west-2, the cluster in us-east-1",
        passes=secured(KEY.format(region="us-east-1")),
    ),
    "kms-key-id": Case(
        fails=secured("arn:aws:kms:us-east-1:123456789012:key/my-key"),
        key="security.kms_key_arn",
        says="'my-key' is not a key ID such as 1234abcd-12ab-34cd-56ef-1234567890ab",
        passes=secured("arn:aws:kms:us-east-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab"),
    ),
    "arn-partition": [
        Case(
            fails=secured(KEY.format(region="us-east-1").replace("arn:aws:", "arn:aws-cn:")),
            key="security.kms_key_arn",
            says="is in the AWS partition aws-cn, us-east-1 in aws",
            passes=secured(KEY.format(region="us-east-1")),
        ),
        Case(
            fails=bounded("arn:aws-us-gov:iam::123456789012:policy/boundary"),
            key="security.permissions_boundary_arn",
            says="is in the AWS partition aws-us-gov, us-east-1 in aws",
            passes=bounded("arn:aws:iam::123456789012:policy/boundary"),
        ),
    ],
}
