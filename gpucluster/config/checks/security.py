"""Rules about `security`: the customer's key and the boundary of the cluster's roles."""

from __future__ import annotations

import re

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Security
from gpucluster.config.regions import partition_of
from gpucluster.config.validators import Findings, Validators

validator = Validators("Security")

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
    """The ARNs of the KMS key and of the permissions boundary have the region's AWS partition."""
    wanted = partition_of(config.region)
    for key in ("kms_key_arn", "permissions_boundary_arn"):
        arn: str | None = getattr(security, key)
        if arn and (got := arn.split(":")[1]) != wanted:
            message = f"is in the AWS partition {got}, {config.region} in {wanted}"
            yield Finding((*path, key), message, f"its ARN must begin with arn:{wanted}:")
