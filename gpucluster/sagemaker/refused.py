"""What to do when AWS refuses a training job, by the words of its refusal.

Sources of the words, each a thread on GitHub: quota, zenml#847 and amazon-sagemaker-examples#263; objects, the same
#2267; image, sagemaker-python-sdk#2063, #1968 and amazon-sagemaker-examples#1476; role,
predictive-maintenance-using-machine-learning#3 and astronomer/docs#1695; //, generative-ai-on-amazon-sagemaker#242;
capacity, rse-grand-challenge#2631; type, amazon-sagemaker-examples#3494.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gpucluster.cluster.aws import aws_errors
from gpucluster.errors import AwsError

_IMAGE = "name an image that exists as image in sagemaker.yaml, and let the role pull it from ECR"
ADVICE = (
    (
        r"ResourceLimitExceeded.*'(ml\.\S+) for (spot )?training job usage'",
        "ask for a higher quota of SageMaker, {1} for {2}training job usage, in the console of Service Quotas; "
        "or use fewer nodes, or another instance type",
    ),
    (
        r"ResourceLimitExceeded",
        "ask for a higher quota of SageMaker in the console of Service Quotas, or wait until other jobs have ended",
    ),
    (
        r"CapacityError|Insufficient capacity",
        "AWS has none of these instances now: try again later, or another --instance-type or region",
    ),
    (
        r"Unsupported instance type",
        "SageMaker has none of these machines in this region: use another --instance-type or region",
    ),
    (
        r"No S3 objects found under S3 URL",
        "check the address of the channel, the region of its bucket, and that the role may list it (s3:ListBucket)",
    ),
    (r"illegal char sub-sequence '//'", "rename the objects whose keys have //"),
    (
        r"Invalid training image|Cannot find the requested image|Access denied for repository|Cannot pull algorithm",
        _IMAGE,
    ),
    (
        r"Could not assume role|sts:AssumeRole|unable to assume the role",
        "let the role_arn of sagemaker.yaml trust sagemaker.amazonaws.com, with its whole path",
    ),
    (
        r"iam:PassRole",
        "your AWS identity must be allowed iam:PassRole for the role_arn of sagemaker.yaml",
    ),
    (
        r"ResourceInUse|PreconditionFailed|ConditionalRequestConflict",
        "another job has got the name, which has the time in seconds: submit it again",
    ),
    (
        r"not authorized to perform: sagemaker:",
        "your AWS identity must be allowed what docs/sagemaker.md lists",
    ),
    (
        r"NoSuchBucket",
        "create the bucket in the region of sagemaker.yaml, or name another one as bucket",
    ),
    (
        r"PermanentRedirect|AuthorizationHeaderMalformed",
        "the bucket is in another region: SageMaker reads and writes buckets of its own region alone",
    ),
)
"""Expression of AWS's words -> what to do. Numbers in braces are groups."""


def advice(words: str) -> str | None:
    for expression, hint in ADVICE:
        if found := re.search(expression, words):
            return hint.format("", *(group or "" for group in found.groups()))
    return None


@contextmanager
def explained() -> Iterator[None]:
    """Raises AwsError with AWS's own words, and what to do."""
    try:
        with aws_errors():
            yield
    except AwsError as error:
        raise type(error)(error.message, advice(error.message) or error.hint) from None
