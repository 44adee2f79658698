"""Permissions of jobs in S3: their own role, narrower than their node's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config.models import S3Access
from gpucluster.config.scripts import Script
from stacks import roles
from stacks.arns import s3_arn
from stacks.context import Context
from stacks.encryption import grant_objects
from stacks.storage.mounts import tag

READ = ("s3:GetObject",)
WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


def objects(uri: S3Uri) -> list[str]:
    """The ARN's object pattern; `data.tar` may be an object, or a folder."""
    prefix = literal(uri.prefix)
    return [f"{uri.bucket}/{prefix}", f"{uri.bucket}/{prefix}/*"] if prefix else [f"{uri.bucket}/*"]


def listed(uri: S3Uri) -> str:
    """Prefixes that a listing may ask for: the folder only, not all names that begin alike."""
    return f"{literal(uri.folder)}*"


def literal(text: str) -> str:
    """Keys in S3 may contain characters that are patterns in IAM."""
    return "".join(f"${{{character}}}" if character in "*?$" else character for character in text)


ONCE = ({"Null": {"s3:if-none-match": "false"}}, {"Bool": {"s3:ObjectCreationOperation": "false"}})
"""Conditions of s3:PutObject: for a new object, which S3 refuses if there is one of that name; and for its parts, which
are no object yet. They are those of the S3 user guide:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html"""


def grant_environments(role: iam.Role, uri: str, key: kms.IKey | None) -> None:
    """The nodes' root keeps the jobs' environments there. Other clusters' root unpacks them, so no node may replace
    what another one has stored."""
    archives = [s3_arn(role, objects(S3Uri.of(uri))[-1])]
    roles.allow(role, ["s3:GetObject", "s3:AbortMultipartUpload"], archives)
    for condition in ONCE:
        roles.allow(role, ["s3:PutObject"], archives, condition)
    _list_cache(role, S3Uri.of(uri))
    grant_objects(role, key, write=True)


def grant_scripts(role: iam.Role, scripts: Iterable[Script], key: kms.IKey | None) -> None:
    """Exactly the objects that the nodes' scripts are."""
    uris = sorted({each.source for each in scripts if in_s3(each.source)})
    if uris:
        named = (S3Uri.of(uri) for uri in uris)
        roles.allow(role, READ, [s3_arn(role, f"{each.bucket}/{literal(each.prefix)}") for each in named])
        grant_objects(role, key, write=False)


def grant_packages(role: iam.Role, uri: str, key: kms.IKey | None) -> None:
    """Jobs keep their own packages below the environments, and reach only those."""
    cache = S3Uri.of(uri)
    actions = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
    roles.allow(role, actions, [s3_arn(role, objects(cache)[-1])])
    _list_cache(role, cache)
    grant_objects(role, key, write=True)


def _list_cache(role: iam.Role, cache: S3Uri) -> None:
    listing = {"StringLike": {"s3:prefix": [listed(cache)]}}
    roles.allow(role, ["s3:ListBucket"], [s3_arn(role, cache.bucket)], listing)


class JobRole(Construct):
    """Compute nodes assume it for their jobs, and the head node for the users who work there.

    A session of a role that another role assumes lasts at most an hour, whatever its limit, so nodes renew it. If a
    bucket uses another KMS key than the cluster's, that key's policy needs a statement for this role. A request for a
    missing object gets 403 and not 404, because 404 requires the permission to list the whole bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        nodes = (context.compute_role, context.head_role)
        self.role = iam.Role(
            self,
            "Role",
            description=f"what jobs of {context.config.name} may do in S3",
            assumed_by=iam.CompositePrincipal(*(iam.ArnPrincipal(each.role_arn) for each in nodes)),
        )
        roles.attach(self.role, context.config.security.policies.jobs)
        self._grant(context.config.s3_access, context.key)
        if cache := context.config.packages_cache:
            grant_packages(self.role, cache, context.key)
        for each in nodes:
            roles.allow(each, ["sts:AssumeRole"], [self.role.role_arn])
        tag(self, context, "/jobs")
        context.parameters.add("Jobs", "jobs", {"role_arn": self.role.role_arn})

    def _grant(self, access: Sequence[S3Access], key: kms.IKey | None) -> None:
        if not access:
            return
        readable = [S3Uri.of(entry.uri) for entry in access]
        writable = [S3Uri.of(entry.uri) for entry in access if entry.access == "read-write"]
        self._list(readable)
        self._allow(READ, readable)
        if writable:
            self._allow(WRITE, writable)
        grant_objects(self.role, key, write=bool(writable))

    def _list(self, prefixes: Sequence[S3Uri]) -> None:
        for bucket in dict.fromkeys(prefix.bucket for prefix in prefixes):
            patterns = sorted({listed(prefix) for prefix in prefixes if prefix.bucket == bucket})
            # Without a condition for a whole bucket: a listing without a prefix matches no condition on it, not even
            # `*`.
            conditions = None if "*" in patterns else {"StringLike": {"s3:prefix": patterns}}
            roles.allow(self.role, ["s3:ListBucket"], [s3_arn(self, bucket)], conditions)

    def _allow(self, actions: Sequence[str], prefixes: Sequence[S3Uri]) -> None:
        named = dict.fromkeys(each for prefix in prefixes for each in objects(prefix))
        roles.allow(self.role, list(actions), [s3_arn(self, each) for each in named])
