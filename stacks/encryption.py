"""The key that encrypts what the cluster keeps: the customer's where one is named, AWS's own otherwise."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from constructs import Construct


def customer_key(scope: Construct, arn: str | None) -> kms.IKey | None:
    """None: AWS's own key for each service."""
    return kms.Key.from_key_arn(scope, "CustomerKey", arn) if arn else None
