"""The buckets that the file names: are they there, and where?"""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config.checks.entries import entries
from gpucluster.config.checks.online.account import Account, Refused
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, S3Access
from gpucluster.config.storage import BeegfsRam, DataRepository
from gpucluster.config.validators import Findings, validator

BUCKETS = "Buckets (asks AWS)"
HEAD = "https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html"
GATEWAY = "https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html"


@validator("fsx-link-bucket-exists", section=BUCKETS, each=DataRepository, needs="aws", source=f"{HEAD}: 404")
def link_bucket_exists(repository: DataRepository, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A data repository's bucket is there."""
    bucket = S3Uri.of(repository.s3).bucket
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
    bucket = S3Uri.of(repository.s3).bucket
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
    bucket = S3Uri.of(access.uri).bucket
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
    source=f"{GATEWAY}: buckets in the same Region",
)
def access_bucket_region(access: S3Access, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A bucket that jobs may use is in the cluster's region: from another, data pass the NAT gateway, and cost."""
    if config.network.internet == "nat":
        yield from _abroad(account, [((*path, "uri"), access.uri)], config)


@validator("node-bucket-exists", section=BUCKETS, each=ClusterConfig, needs="aws", source=f"{HEAD}: 404")
def node_bucket_exists(config: ClusterConfig, account: Account) -> Findings:
    """The buckets of software.cache, and of source and export of a file system in memory, are there."""
    for path, bucket, region in _regions(account, _of_nodes(config)):
        if region is None:
            yield Finding(path, f"there is no bucket {bucket}", f"aws s3 mb s3://{bucket} --region {config.region}")


@validator(
    "node-bucket-region",
    section=BUCKETS,
    each=ClusterConfig,
    needs="aws",
    level="warning",
    source=f"{GATEWAY}: buckets in the same Region",
)
def node_bucket_region(config: ClusterConfig, account: Account) -> Findings:
    """The buckets of software.cache, source and export are in the cluster's region: to another, data pass the NAT
    gateway, and cost."""
    if config.network.internet == "nat":
        yield from _abroad(account, _of_nodes(config), config)


@validator(
    "internet-none-bucket-region",
    section=BUCKETS,
    each=ClusterConfig,
    needs="aws",
    source=f"{GATEWAY}: a gateway endpoint is for buckets in its own Region",
)
def internet_none_bucket_region(config: ClusterConfig, account: Account) -> Findings:
    """With internet: none the buckets that jobs and nodes use are in the cluster's region: none else is reached."""
    if config.network.internet != "none":
        return
    accessed = [(("s3_access", index, "uri"), access.uri) for index, access in enumerate(config.s3_access)]
    for path, bucket, region in _elsewhere(account, [*accessed, *_of_nodes(config)], config):
        yield Finding(
            path,
            f"{bucket} is in {region}: with network.internet: none nodes reach buckets in {config.region} alone",
            "replicate it, or write internet: nat",
        )


def _abroad(account: Account, named: list[tuple[Path, str]], config: ClusterConfig) -> Findings:
    for path, bucket, region in _elsewhere(account, named, config):
        yield Finding(path, f"{bucket} is in {region}, the cluster in {config.region}", "replicate it, or train there")


def _elsewhere(
    account: Account, named: list[tuple[Path, str]], config: ClusterConfig
) -> Iterator[tuple[Path, str, str]]:
    """Those that are there, and in another region than the cluster."""
    for path, bucket, region in _regions(account, named):
        if region not in (None, config.region):
            yield path, bucket, str(region)


def _of_nodes(config: ClusterConfig) -> list[tuple[Path, str]]:
    """Addresses of buckets that `s3_access` does not name already; not the links of FSx, which reaches S3 by itself."""
    accessed = {S3Uri.of(access.uri).bucket for access in config.s3_access}
    named: list[tuple[Path, str | None]] = [(("software", "cache"), config.software.cache)]
    for (_, index), storage in entries(config, BeegfsRam):
        named += [(("storage", index, "source"), storage.source), (("storage", index, "export"), storage.export)]
    return [(path, uri) for path, uri in named if uri and in_s3(uri) and S3Uri.of(uri).bucket not in accessed]


def _regions(account: Account, named: list[tuple[Path, str]]) -> Iterator[tuple[Path, str, str | None]]:
    """Of each bucket its region, as _region. Raises Refused when all others have been asked for."""
    refused: Refused | None = None
    for path, uri in named:
        bucket = S3Uri.of(uri).bucket
        try:
            region = _region(account, bucket)
        except Refused as refusal:
            refused = refusal
            continue
        yield path, bucket, region
    if refused:
        raise refused


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
