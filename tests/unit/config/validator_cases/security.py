from __future__ import annotations

from validator_cases.case import Case, Keys, cluster

KEY = "arn:aws:kms:{region}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def secured(key: str) -> Keys:
    return cluster(security={"kms_key_arn": key})


def bounded(policy: str) -> Keys:
    return cluster(security={"permissions_boundary_arn": policy})


def granted(role: str, count: int) -> Keys:
    return cluster(security={"policies": {role: [f"arn:aws:iam::123456789012:policy/p{n}" for n in range(count)]}})


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
    "managed-policy-arn-form": Case(
        fails=cluster(security={"policies": {"head": ["AmazonSSMManagedInstanceCore"]}}),
        key="security.policies.head[0]",
        says="must be a managed policy's ARN (arn:aws:iam::…:policy/…), got 'AmazonSSMManagedInstanceCore'",
        passes=granted("head", 1),
    ),
    "role-prefix-form": [
        Case(
            fails=cluster(security={"role_prefix": wrong}),
            key="security.role_prefix",
            says="must be at most 20 letters, digits and _ + = , . @ -, after a path such as /teams/ if there is one, "
            f"got {wrong!r}",
            passes=cluster(security={"role_prefix": right}),
        )
        for wrong, right in (("", "team-"), ("a/b", "/a/b"), ("a" * 21, "a" * 20), ("/a//", "/a/"), ("a b", "/a/b/c-"))
    ],
    "policies-of-a-role": [
        Case(
            fails=granted(role, 9),
            key=f"security.policies.{role}",
            says="has 9 policies; a role takes 10, of which GpuCluster may need 2",
            passes=granted(role, 8),
        )
        for role in ("head", "nodes", "jobs")
    ],
    "arn-partition": [
        Case(
            fails=cluster(security={"policies": {"jobs": ["arn:aws-cn:iam::aws:policy/x"]}}),
            key="security.policies.jobs[0]",
            says="is in the AWS partition aws-cn, us-east-1 in aws",
            passes=granted("jobs", 1),
        ),
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
