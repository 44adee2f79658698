"""Where in SageMaker jobs run: the section `sagemaker` of cluster.yaml, and most of sagemaker.yaml.

The lengths and patterns of what goes into a request are those of botocore's model (gpucluster/sagemaker/limits.py).
"""

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, model_validator

from gpucluster.config.durations import TimeLimit
from gpucluster.config.fields import Count
from gpucluster.config.identifiers import KmsKeyArn, SecurityGroupId, SubnetId
from gpucluster.config.limits import Limit
from gpucluster.config.section import Section
from gpucluster.config.value_checks import matching, refuse
from gpucluster.hardware.instances import INSTANCE_TYPES
from gpucluster.meant import did_you_mean

PREFIX = "ml."


def _instance_type(value: Any) -> Any:
    """SageMaker's name of an instance type is EC2's after `ml.`; both are accepted."""
    if not isinstance(value, str):
        return value
    name = value.removeprefix(PREFIX)
    if name not in INSTANCE_TYPES:
        hint = did_you_mean(name, INSTANCE_TYPES, "`gpucluster types` lists those that it knows")
        raise refuse(f"must be an instance type such as ml.p4d.24xlarge, got {value!r}", hint or "")
    return PREFIX + name


def form(pattern: str, what: str, hint: str = "") -> AfterValidator:
    return AfterValidator(matching(pattern, what, hint))


RoleArn = Annotated[
    str,
    form(
        r"arn:aws[a-z-]*:iam::[0-9]{12}:role/.+",
        "the ARN of a role that trusts sagemaker.amazonaws.com, such as arn:aws:iam::123456789012:role/training",
    ),
]
Bucket = Annotated[
    str, form(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "a bucket's name: 3 to 63 lower-case letters, digits, . and -")
]
EcrImage = Annotated[
    str,
    form(
        r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.[a-z.]+/[^\s]+",
        "an image in ECR such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        "SageMaker pulls from ECR: copy the image there",
    ),
]
SageMakerType = Annotated[str, BeforeValidator(_instance_type)]


class SageMaker(Section):
    heading: ClassVar[str] = "SageMaker"

    role_arn: RoleArn
    bucket: Bucket
    instance_type: SageMakerType
    image: EcrImage | None = None
    """Default: AWS's image for the job's framework (gpucluster/sagemaker/images.csv)."""
    toolkit: bool = False
    """The image's entry point is AWS's toolkit, which starts the ranks."""
    subnets: tuple[SubnetId, ...] = ()
    security_groups: tuple[SecurityGroupId, ...] = ()
    kms_key_arn: KmsKeyArn | None = None
    volume_gb: Annotated[
        Count,
        Limit("sagemaker-volume", "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html"),
    ] = 100
    """For types without local disks."""
    spot: bool = False
    max_wait: TimeLimit | None = None
    """For spot: the time for waiting and running together."""

    @model_validator(mode="after")
    def _together(self) -> "SageMaker":
        if bool(self.subnets) != bool(self.security_groups):
            raise refuse("subnets and security_groups belong together", "give both, or neither")
        if self.spot and not self.max_wait:
            raise refuse("spot needs max_wait", "such as 24h: the time for waiting and running together")
        if self.max_wait and not self.spot:
            raise refuse("max_wait needs spot: true", "remove one of the two")
        return self
