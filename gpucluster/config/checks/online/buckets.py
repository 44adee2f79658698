"""Checks the region of the buckets that the file names."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config.checks.entries import entries
from gpucluster.config.checks.online.account import Account, Refused
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.scripts import MOST_BYTES, Script
from gpucluster.config.storage import BeegfsRam, DataRepository
from gpucluster.config.validators import Findings, Validators

validator = Validators("Buckets (asks AWS)", needs="aws")


@validator(
    "bucket-in-region",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html: Region and account "
    "support for linked S3 buckets; https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html: "
    "a gateway endpoint is for buckets in its own Region",
)
def bucket_in_region(config: ClusterConfig, account: Account) -> Findings:
    """A bucket is in the cluster's region if FSx imports from it, if nodes run a script from it, or if they have no
    internet."""
    refused: Refused | None = None
    for path, uri in uris(config):
        try:
            region = region_of(account, uri.bucket)
        except Refused as refusal:
            refused = refusal
            continue
        if region not in (None, config.region) and (needed := _needed(config, path)):
            yield Finding(path, f"{uri.bucket} is in {region}, and {needed[0]}", needed[1])
    if refused:
        raise refused


def _needed(config: ClusterConfig, path: Path) -> tuple[str, str] | None:
    """Why this bucket must be in the cluster's region, and what to do if it is not."""
    here = config.region
    if "scripts" in path:
        return f"nodes read scripts only from buckets in {here}", "copy the script to a bucket there"
    if "data_repositories" in path:
        repository = next(each for where, each in entries(config, DataRepository) if where == path[:-1])
        imports = f"a file system in {here} imports only from its own region"
        return (imports, "remove import, or replicate the bucket") if repository.import_ else None
    if config.network.internet == "none":
        return (
            f"with network.internet: none nodes reach only buckets in {here}",
            "replicate the bucket, or write internet: nat",
        )
    return None


def uris(config: ClusterConfig) -> Iterator[tuple[Path, S3Uri]]:
    """All S3 addresses in the file."""
    named: list[tuple[Path, str | None]] = [
        *((("s3_access", index, "uri"), access.uri) for index, access in enumerate(config.s3_access)),
        (("software", "cache"), config.software.cache),
    ]
    named += [((*path, "s3"), repository.s3) for path, repository in entries(config, DataRepository)]
    for path, storage in entries(config, BeegfsRam):
        named += [((*path, "source"), storage.source), ((*path, "export"), storage.export)]
    named += [((*path, "source"), script.source) for path, script in entries(config, Script)]
    yield from ((path, S3Uri.of(uri)) for path, uri in named if uri and in_s3(uri))


@validator("script-object-exists", "https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: NoSuchKey")
def script_object_exists(script: Script, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A script in S3 exists, and has at most 1 MiB."""
    if not in_s3(script.source):
        return
    uri = S3Uri.of(script.source)
    try:
        found = account.ask("s3", "list_objects_v2", Bucket=uri.bucket, Prefix=uri.prefix)
    except Refused as refusal:
        if refusal.code == "NoSuchBucket":  # bucket-exists says so
            return
        raise
    sizes = {each["Key"]: each["Size"] for each in found.get("Contents", ())}
    if uri.prefix not in sizes:
        yield Finding((*path, "source"), f"{uri} does not exist", f"aws s3 cp {script.name} {uri}")
    elif sizes[uri.prefix] > MOST_BYTES:
        message = f"{uri} has {sizes[uri.prefix]} bytes, and a script may have {MOST_BYTES}"
        yield Finding((*path, "source"), message, "let the script download its data and programs")


def region_of(account: Account, bucket: str) -> str | None:
    """None if the bucket does not exist. Raises Refused if another account owns it."""
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
