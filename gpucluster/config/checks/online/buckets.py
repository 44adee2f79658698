"""The buckets that the file names: are they there, and where?"""

from __future__ import annotations

from gpucluster.config.checks import s3
from gpucluster.config.checks.online.account import Account, Refused
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, DataRepository, S3Access
from gpucluster.config.validators import Findings, validator

BUCKETS = "Buckets (asks AWS)"
HEAD = "https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html"


@validator("fsx-link-bucket-exists", section=BUCKETS, each=DataRepository, needs="aws", source=f"{HEAD}: 404")
def link_bucket_exists(repository: DataRepository, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A data repository's bucket is there."""
    bucket, _ = s3.split(repository.s3)
    if _region(account, bucket) is None:
        yield Finding(
            (*path, "s3"), f"there is no bucket {bucket}", f"aws s3 mb s3://{bucket} --region {config.region}"
        )


@validator(
    "fsx-link-bucket-region",
    section=BUCKETS,
    each=DataRepository,
    needs="aws",
    source="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html: "
    "Region and account support for linked S3 buckets",
)
def link_bucket_region(repository: DataRepository, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A data repository that imports is of a bucket in the cluster's region; exports may go to another."""
    bucket, _ = s3.split(repository.s3)
    region = _region(account, bucket)
    if repository.import_ and region not in (None, config.region):
        yield Finding(
            (*path, "s3"),
            f"{bucket} is in {region}, and a file system in {config.region} imports from its own region alone",
            "leave import out, or replicate the bucket",
        )


@validator("s3-access-bucket-exists", section=BUCKETS, each=S3Access, needs="aws", source=f"{HEAD}: 404")
def access_bucket_exists(access: S3Access, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A bucket that jobs may use is there."""
    bucket, _ = s3.split(access.uri)
    if _region(account, bucket) is None:
        yield Finding(
            (*path, "uri"), f"there is no bucket {bucket}", f"aws s3 mb s3://{bucket} --region {config.region}"
        )


@validator(
    "s3-access-bucket-region",
    section=BUCKETS,
    each=S3Access,
    needs="aws",
    level="warning",
    source="https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html: buckets in the same Region",
)
def access_bucket_region(access: S3Access, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A bucket that jobs may use is in the cluster's region: from another, data pass the NAT gateway, and cost."""
    bucket, _ = s3.split(access.uri)
    region = _region(account, bucket)
    if region not in (None, config.region):
        yield Finding(
            (*path, "uri"), f"{bucket} is in {region}, the cluster in {config.region}", "replicate it, or train there"
        )


def _region(account: Account, bucket: str) -> str | None:
    """None where there is no such bucket. Raises Refused where it is somebody else's."""
    try:
        answer = account.ask("s3", "head_bucket", Bucket=bucket)
    except Refused as refusal:
        if refusal.code in ("404", "NoSuchBucket"):
            return None
        raise
    region: str | None = answer.get("BucketRegion") or _header(answer)
    return region or account.ask("s3", "get_bucket_location", Bucket=bucket).get("LocationConstraint") or "us-east-1"


def _header(answer: dict[str, dict[str, dict[str, str]]]) -> str | None:
    return answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
