"""Rules about `s3_access`, which becomes the policy of the jobs' role."""

from __future__ import annotations

import re

from gpucluster.addresses import S3Uri
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, S3Access
from gpucluster.config.regions import partition_of
from gpucluster.config.validators import Findings, Validators

validator = Validators("S3 access")

POLICY = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html: 10,240 characters for a role"
POLICY_CHARACTERS = 10240
ELEMENTS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html: wildcards"

_STATEMENT = len(
    '{"Action":["s3:PutObject","s3:DeleteObject","s3:AbortMultipartUpload"],"Effect":"Allow","Resource":[]},'
)
_LISTING = len('{"Action":"s3:ListBucket","Condition":{"StringLike":{"s3:prefix":[]}},"Effect":"Allow","Resource":""},')


@validator("s3-access-plain-prefix", ELEMENTS, level="warning")
def plain_prefix(access: S3Access, path: Path, config: ClusterConfig) -> Findings:
    """A prefix has no *, ? or $: unlike in IAM policies, they are not wildcards here."""
    found = re.search(r"[*?$]", access.uri)
    if found:
        yield Finding(
            (*path, "uri"),
            f"{found[0]} is not a wildcard here: it matches only itself",
            "write only the prefix: it includes everything under it",
        )


@validator("s3-access-policy-size", POLICY)
def policy_size(config: ClusterConfig) -> Findings:
    """The entries fit into the policy of one role."""
    size = _policy_characters(config)
    if size > POLICY_CHARACTERS:
        yield Finding(
            ("s3_access",),
            f"{len(config.s3_access)} entries make a policy of about {size} characters; AWS takes {POLICY_CHARACTERS}",
            "grant one common prefix instead",
        )


def _policy_characters(config: ClusterConfig) -> int:
    """The policy's size: statements for objects, each prefix with and without /*, a listing statement per bucket, and
    those for jobs' own packages in `software.cache`."""
    arn = f"arn:{partition_of(config.region)}:s3:::"
    writable = [access.uri for access in config.s3_access if access.access == "read-write"]
    objects = sum(2 * len(f'"{arn}{uri}",') for uri in [*(access.uri for access in config.s3_access), *writable])
    uris = [S3Uri.of(access.uri) for access in config.s3_access]
    listed, buckets = sum(len(f'"{uri.folder}*",') for uri in uris), {uri.bucket for uri in uris}
    kept = _STATEMENT + _LISTING + 3 * len(f"{arn}{config.packages_cache}") if config.packages_cache else 0
    return 2 * _STATEMENT + objects + listed + kept + sum(_LISTING + len(arn) + len(bucket) for bucket in buckets)
