"""What AWS would refuse of any job of a target: its quota, role, bucket and image. Nothing is created.

A check that may not ask says so: its finding is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpucluster.cluster.aws import aws_errors
from gpucluster.errors import AwsError
from gpucluster.sagemaker.connection import Connection
from gpucluster.sagemaker.target import Target

SERVICE = "sagemaker.amazonaws.com"
_ECR = re.compile(r"([0-9]{12})\.dkr\.ecr\.([a-z0-9-]+)\.[a-z.]+/([^:@]+)(?::([^@]+))?(?:@(.+))?")


class Fault(NamedTuple):
    key: str
    """The key of sagemaker.yaml."""
    message: str
    hint: str = ""
    certain: bool = True
    """False: the check could not ask."""


def ask(connection: Connection, target: Target) -> tuple[Fault, ...]:
    checks: dict[str, Callable[[Connection, Target], Iterator[Fault]]] = {
        "instance_type": _quota,
        "role_arn": _role,
        "bucket": _bucket,
        "image": _image,
    }
    return tuple(fault for key, check in checks.items() for fault in _asked(key, check, connection, target))


def _asked(
    key: str,
    check: Callable[[Connection, Target], Iterator[Fault]],
    connection: Connection,
    target: Target,
) -> Iterator[Fault]:
    try:
        with aws_errors():
            yield from list(check(connection, target))
    except AwsError as error:
        yield Fault(key, f"was not checked: {error.message}", error.hint or "", certain=False)


def _quota(connection: Connection, target: Target) -> Iterator[Fault]:
    """Its names are those of AWS's refusals: amazon-sagemaker-examples#263."""
    name = f"{target.instance_type} for {'spot ' if target.spot else ''}training job usage"
    pages = connection.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    value = next((each["Value"] for page in pages for each in page["Quotas"] if each["QuotaName"] == name), None)
    if value is not None and value < 1:
        hint = f"ask for a higher one in the console of Service Quotas, in {target.region}"
        yield Fault("instance_type", f"the quota of SageMaker, {name}, is {value:g}: no job can start", hint)


def _role(connection: Connection, target: Target) -> Iterator[Fault]:
    iam, name = connection.client("iam"), target.role_arn.rpartition("/")[2]
    try:
        role = iam.get_role(RoleName=name)["Role"]
    except iam.exceptions.NoSuchEntityException:
        yield Fault("role_arn", f"there is no role {name}", "name one that exists, with its whole path")
        return
    if role["Arn"] != target.role_arn:
        yield Fault("role_arn", f"the role {name} is {role['Arn']}, got {target.role_arn}", "write its whole path")
    elif SERVICE not in _trusted(role["AssumeRolePolicyDocument"]):
        yield Fault("role_arn", f"the role {name} does not trust {SERVICE}", f"let its trust policy name {SERVICE}")


def _trusted(policy: Any) -> set[str]:
    """The services that may assume the role. `policy`: decoded by boto3."""
    found = set[str]()
    statements = policy["Statement"]
    for each in [statements] if isinstance(statements, dict) else statements:
        named = each["Principal"].get("Service", ()) if isinstance(each.get("Principal"), dict) else ()
        if each["Effect"] == "Allow":
            found |= {named} if isinstance(named, str) else set(named)
    return found


def _bucket(connection: Connection, target: Target) -> Iterator[Fault]:
    """HeadBucket's header x-amz-bucket-region has the region, also in the answers 301 and 403 (its API reference)."""
    from botocore.exceptions import ClientError

    try:
        answer = connection.client("s3").head_bucket(Bucket=target.bucket)
        code = ""
    except ClientError as error:
        answer, code = error.response, error.response["Error"]["Code"]
    if code in ("404", "NoSuchBucket"):
        yield Fault("bucket", f"there is no bucket {target.bucket}", f"create it in {target.region}, or name another")
        return
    where = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
    if where and where != target.region:
        what = f"the bucket {target.bucket} is in {where}, and SageMaker in {target.region} needs one there"
        yield Fault("bucket", what, f"name a bucket in {target.region}")
    elif code:
        yield Fault("bucket", f"{target.bucket} was not checked: HeadBucket: {code}", "", certain=False)


def _image(connection: Connection, target: Target) -> Iterator[Fault]:
    """Only the user's own: the table names AWS's images, which the account may not list."""
    found = _ECR.fullmatch(target.image or "")
    if not found:
        return
    account, region, repository, tag, digest = found.groups()
    if region != target.region:
        yield Fault("image", f"is in {region}, and SageMaker pulls from {target.region} alone", "copy it there")
        return
    ecr = connection.client("ecr")
    which = {"imageDigest": digest} if digest else {"imageTag": tag or "latest"}
    try:
        ecr.describe_images(registryId=account, repositoryName=repository, imageIds=[which])
    except ecr.exceptions.RepositoryNotFoundException:
        yield Fault("image", f"there is no repository {repository} in {account}, {region}", "push the image there")
    except ecr.exceptions.ImageNotFoundException:
        yield Fault("image", f"the repository {repository} has no image {digest or tag or 'latest'}", "push it there")
