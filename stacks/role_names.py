"""Names of roles, instance profiles and policies that begin with `security.role_prefix`.

An account's rules may allow only such names. Without a prefix CloudFormation names them.
"""

from __future__ import annotations

from hashlib import sha256

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from constructs import IConstruct

LONGEST = 64
"""A role's name has as many characters: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html."""
HASH, ID = 8, 40
"""Characters of the hash, and most of the construct's path."""


def apply(stack: cdk.Stack, prefix: str | None, cluster: str) -> None:
    if prefix:
        cdk.Aspects.of(stack).add(_Named(prefix, cluster, stack.region))


def name(prefix: str, cluster: str, region: str, construct: str) -> str:
    """Another one for each resource of each cluster in each region, because IAM has no regions. `construct`: the
    resource's path in the stack."""
    digest = sha256(f"{region}/{cluster}/{construct}".encode()).hexdigest()[:HASH]
    id_ = construct.removesuffix("/Resource").replace("/", "").replace("-", "")[:ID]
    room = LONGEST - len(prefix) - len(id_) - HASH - 2
    return f"{prefix}{cluster[: max(room, 0)]}-{id_}"[: LONGEST - HASH - 1] + f"-{digest}"


@jsii.implements(cdk.IAspect)
class _Named:
    def __init__(self, prefix: str, cluster: str, region: str) -> None:
        self._path, slash, start = prefix.rpartition("/")
        self._path += slash
        self._of = (start, cluster, region)

    def visit(self, node: IConstruct) -> None:
        for kind, property_ in (
            (iam.CfnRole, "RoleName"),
            (iam.CfnInstanceProfile, "InstanceProfileName"),
            (iam.CfnManagedPolicy, "ManagedPolicyName"),
        ):
            if isinstance(node, kind):
                own = node.node.path.removeprefix(f"{cdk.Stack.of(node).node.path}/")
                node.add_property_override(property_, name(*self._of, own))
                if self._path:
                    node.add_property_override("Path", self._path)
