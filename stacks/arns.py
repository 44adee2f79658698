"""ARNs of resources that other resources name."""

from __future__ import annotations

from functools import lru_cache

import aws_cdk as cdk
from constructs import Construct


def arn(scope: Construct, service: str, resource: str, *, region: str | None = None, account: str | None = None) -> str:
    """In the stack's own region and account by default. `resource`: all that follows the account.

    CDK's Stack.format_arn asks CDK's engine for each ARN, and each question takes a quarter of a millisecond.
    """
    partition, own_region, own_account = place(scope)
    where = own_region if region is None else region
    return f"arn:{partition}:{service}:{where}:{own_account if account is None else account}:{resource}"


def s3_arn(scope: Construct, resource: str) -> str:
    """`resource`: a bucket, or a bucket and the key of an object."""
    return arn(scope, "s3", resource, region="", account="")


@lru_cache(maxsize=8)
def place(scope: Construct) -> tuple[str, str, str]:
    """The AWS partition, region and account of its stack."""
    stack = cdk.Stack.of(scope)
    return (stack.partition, stack.region, stack.account) if stack is scope else place(stack)
