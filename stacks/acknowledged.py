"""What cdk-nag's AwsSolutions rules find in this stack and why it stays: one row for each finding on each resource.

A user who adds the rules to the app sees these acknowledged, and nothing else:
`cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))`. A test holds the table to what the rules find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import aws_cdk as cdk
from constructs import IConstruct


class Row(NamedTuple):
    path: str
    """Of the resource's construct, in the stack."""
    finding: str
    """The rule, and in brackets what it applies to. {name}, {region} and {account} are the stack's."""
    reason: str


BUNDLES = "Resource::arn:<AWS::Partition>:s3:::cdk-hnb659fds-assets-{account}-{region}/{name}/*"
PARAMETERS = "Resource::arn:<AWS::Partition>:ssm:{region}:{account}:parameter/gpucluster/{name}/*"
INSTANCES = "Resource::arn:<AWS::Partition>:ec2:{region}:{account}:instance/*"

WHICH_BUNDLE = "a bundle is named after its hash; the prefix is this cluster's alone"
WHICH_PARAMETER = "partitions come and go; the path is this cluster's alone"
WHICH_INSTANCE = "instances have ids of EC2's making; a condition on tags holds this to the cluster's own"

ROWS: tuple[Row, ...] = ()


def acknowledge(stack: cdk.Stack, values: Mapping[str, str]) -> None:
    """values: name, region and account, for the rows' braces."""
    for row in ROWS:
        for construct in _found(stack, row.path):
            finding = cdk.Acknowledgment(id=f"AwsSolutions-{row.finding.format_map(values)}", reason=row.reason)
            cdk.Validations.of(construct).acknowledge(finding)


def _found(stack: cdk.Stack, path: str) -> Iterator[IConstruct]:
    """None where this cluster does without it."""
    construct: IConstruct | None = stack
    for part in path.split("/"):
        construct = construct.node.try_find_child(part) if construct else None
    if construct:
        yield construct
