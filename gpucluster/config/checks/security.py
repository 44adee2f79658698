"""Rules about `security`: the customer's key and the boundary of the cluster's roles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Security
from gpucluster.config.regions import partition_of
from gpucluster.config.validators import Findings, Validators

validator = Validators("Security")

QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
MOST_POLICIES = 10
OF_ROLES = ("head", "nodes", "jobs")
KEY_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}"


@validator(
    "kms-key-region",
    "https://docs.aws.amazon.com/kms/latest/developerguide/multi-region-keys-overview.html: "
    "a key is used in the region of its ARN; error NotFoundException",
)
def kms_key_region(security: Security, path: Path, config: ClusterConfig) -> Findings:
    """The KMS key is in the cluster's region."""
    if security.kms_key_arn is None:
        return
    region = security.kms_key_arn.split(":")[3]
    if region != config.region:
        yield Finding(
            (*path, "kms_key_arn"),
            f"the key is in {region}, the cluster in {config.region}",
            f"a multi-region key has replicas with their own ARNs: arn:…:kms:{config.region}:…",
        )


@validator("kms-key-id", "https://docs.aws.amazon.com/efs/latest/ug/API_CreateFileSystem.html: pattern of KmsKeyId")
def kms_key_id(security: Security, path: Path, config: ClusterConfig) -> Findings:
    """The KMS key's ARN ends in a key ID: five groups of hexadecimal digits, or mrk- and 32 of them."""
    key_id = (security.kms_key_arn or "").rpartition("/")[2]
    if key_id and not re.fullmatch(KEY_ID, key_id):
        yield Finding(
            (*path, "kms_key_arn"),
            f"{key_id!r} is not a key ID such as 1234abcd-12ab-34cd-56ef-1234567890ab",
            "`aws kms describe-key --key-id alias/… --query KeyMetadata.Arn` prints the whole ARN",
        )


@validator("arn-partition", "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html: partition")
def arn_partition(security: Security, path: Path, config: ClusterConfig) -> Findings:
    """The ARNs of the KMS key, of the permissions boundary and of policies have the region's AWS partition."""
    wanted = partition_of(config.region)
    named: list[tuple[Path, str | None]] = [
        ((key,), getattr(security, key)) for key in ("kms_key_arn", "permissions_boundary_arn")
    ]
    named += [(key, arn) for key, arn in named_policies(security)]
    for key, arn in named:
        if arn and (got := arn.split(":")[1]) != wanted:
            message = f"is in the AWS partition {got}, {config.region} in {wanted}"
            yield Finding((*path, *key), message, f"its ARN must begin with arn:{wanted}:")


def named_policies(security: Security) -> Iterator[tuple[Path, str]]:
    """Each policy of security.policies, with its place in the section."""
    for role in OF_ROLES:
        for index, arn in enumerate(getattr(security.policies, role)):
            yield ("policies", role, index), arn


@validator("policies-of-a-role", f"{QUOTAS}: 10 managed policies attached to a role, which AWS raises on request")
def policies_of_a_role(security: Security, path: Path, config: ClusterConfig) -> Findings:
    """A role has at most 10 managed policies, of which some are GpuCluster's own."""
    stops = config.budget is not None and config.budget.stops_launches
    own = {"head": 2 + len(config.lustre_with_jobs) + stops, "nodes": 2, "jobs": 2}
    for role, needed in own.items():
        count = len(getattr(security.policies, role))
        if count > MOST_POLICIES - needed:
            message = f"has {count} policies; a role takes {MOST_POLICIES}, of which GpuCluster may need {needed}"
            yield Finding((*path, "policies", role), message, "put several policies into one", at="key")
