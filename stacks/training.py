"""A role and a bucket for jobs on SageMaker: `cdk -c training=REGION deploy GpuClusterTraining`.

The role's permissions are those of "CreateTrainingJob API: Execution Role Permissions",
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html, for this bucket alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from gpucluster.addresses import S3Uri
from stacks.acknowledged import Row, acknowledge
from stacks.arns import arn, s3_arn
from stacks.placeholders import NO_ACCOUNT
from stacks.roles import allow

NAME = "GpuClusterTraining"
SERVICE = "sagemaker.amazonaws.com"
LOGS, METRICS = "/aws/sagemaker/TrainingJobs", "/aws/sagemaker/TrainingJobs"
FOLDER = "gpucluster"
"""All that our jobs write is below it (gpucluster/sagemaker/target.py)."""
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
IN_A_VPC = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


class Training(cdk.Stack):
    def __init__(
        self, scope: cdk.App, id_: str = NAME, *, region: str, account: str | None, reads: Sequence[str], vpc: bool
    ) -> None:
        """`reads`: further addresses in S3 with data of jobs. `vpc`: jobs may run in subnets."""
        super().__init__(
            scope,
            id_,
            env=cdk.Environment(account=account or NO_ACCOUNT, region=region),
            description="GpuCluster: the role and the bucket of jobs on SageMaker",
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(7))],
        )
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal(SERVICE))
        self._data(reads)
        self._logs()
        if vpc:
            allow(self.role, IN_A_VPC, ["*"])
        cdk.CfnOutput(self, "RoleArn", value=self.role.role_arn)
        cdk.CfnOutput(self, "BucketName", value=self.bucket.bucket_name)
        acknowledge(self, id_, rows(self, reads))

    def _data(self, reads: Sequence[str]) -> None:
        own = self.bucket.bucket_arn
        allow(self.role, ["s3:ListBucket"], [own])
        allow(self.role, ["s3:GetObject", "s3:PutObject"], [f"{own}/{FOLDER}/*"])
        for uri in reads:
            place = S3Uri.of(uri)
            allow(self.role, ["s3:ListBucket"], [s3_arn(self, place.bucket)])
            allow(self.role, ["s3:GetObject"], [s3_arn(self, f"{place.bucket}/{place.folder}*")])

    def _logs(self) -> None:
        writes = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
        allow(self.role, writes, [arn(self, "logs", f"log-group:{LOGS}:*")])  # IAM matches no group without the :*
        namespace = {"StringEquals": {"cloudwatch:namespace": METRICS}}
        allow(self.role, ["cloudwatch:PutMetricData"], ["*"], namespace)
        allow(self.role, ["ecr:GetAuthorizationToken"], ["*"])
        allow(self.role, PULL, [arn(self, "ecr", "repository/*", account="*")])


def rows(stack: Training, reads: Sequence[str]) -> Iterator[Row]:
    """The findings of cdk-nag that stay."""
    policy, bucket = "Role/DefaultPolicy/Resource", stack.get_logical_id(stack.bucket.node.default_child)
    partition = "arn:<AWS::Partition>"
    yield Row("Bucket/Resource", "S1", "who reads a bucket of training data is the account's own decision, and costs")
    yield Row(
        policy, "IAM5[Resource::*]", "PutMetricData with its namespace, ecr:GetAuthorizationToken and EC2's calls"
    )
    yield Row(policy, f"IAM5[Resource::<{bucket}.Arn>/{FOLDER}/*]", "each job writes a folder of its own below it")
    stream = "each host of a job writes its own stream in this one group"
    yield Row(policy, f"IAM5[Resource::{partition}:logs:{{region}}:{{account}}:log-group:{LOGS}:*]", stream)
    yield Row(
        policy, f"IAM5[Resource::{partition}:ecr:{{region}}:*:repository/*]", "AWS's own images have its accounts"
    )
    for uri in reads:
        place = S3Uri.of(uri)
        prefix = f"{place.bucket}/{place.folder}*"
        yield Row(policy, f"IAM5[Resource::{partition}:s3:::{prefix}]", "the deployment names the data that jobs read")
