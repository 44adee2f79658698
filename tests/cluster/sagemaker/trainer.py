"""The role and the bucket of training jobs on a local cloud."""

from __future__ import annotations

import json

from bed import Bed

BUCKET, ROLE = "jobs-of-tests", "trainer"
SECTION = f"""
role_arn: arn:aws:iam::123456789012:role/{ROLE}
bucket: {BUCKET}
instance_type: ml.g5.12xlarge
image: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker
"""
"""The local cloud pulls no image."""
TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
MAY = {"Effect": "Allow", "Action": ["s3:*", "logs:*", "cloudwatch:PutMetricData"], "Resource": "*"}


def make(bed: Bed) -> None:
    iam, document = bed.client("iam"), {"Version": "2012-10-17"}
    trust, may = (json.dumps({**document, "Statement": [each]}) for each in (TRUST, MAY))
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=trust)
    iam.put_role_policy(RoleName=ROLE, PolicyName="may", PolicyDocument=may)
    bed.client("s3").create_bucket(Bucket=BUCKET)
