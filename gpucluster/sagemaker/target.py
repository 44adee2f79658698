"""sagemaker.yaml: where in SageMaker jobs run, with which role, bucket and machines.

The lengths and patterns of what goes into the request are those of botocore's model (`limits`).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from gpucluster.config.document import Document, Finding
from gpucluster.config.fields import KmsKeyArn, MountPoint, RegionName, SecurityGroupId, SubnetId, Whole
from gpucluster.config.section import Section
from gpucluster.config.value_checks import matching, refuse
from gpucluster.config.wording import finding as worded
from gpucluster.errors import ConfigError, Notice
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.job.spec import TimeLimit
from gpucluster.meant import did_you_mean

FILE = "sagemaker.yaml"
PREFIX = "ml."
EXAMPLE = "docs/sagemaker.md has an example"


def _instance_type(value: Any) -> Any:
    """SageMaker's name of an instance type is EC2's after `ml.`; both are accepted."""
    if not isinstance(value, str):
        return value
    name = value.removeprefix(PREFIX)
    if name not in INSTANCE_TYPES:
        hint = did_you_mean(name, INSTANCE_TYPES, "`gpucluster types` lists those that it knows")
        raise refuse(f"must be an instance type such as ml.p4d.24xlarge, got {value!r}", hint or "")
    return PREFIX + name


def _form(pattern: str, what: str, hint: str = "") -> AfterValidator:
    return AfterValidator(matching(pattern, what, hint))


RoleArn = Annotated[
    str,
    _form(
        r"arn:aws[a-z-]*:iam::[0-9]{12}:role/.+",
        "the ARN of a role that trusts sagemaker.amazonaws.com, such as arn:aws:iam::123456789012:role/training",
    ),
]
Bucket = Annotated[
    str, _form(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "a bucket's name: 3 to 63 lower-case letters, digits, . and -")
]
EcrImage = Annotated[
    str,
    _form(
        r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.[a-z.]+/[^\s]+",
        "an image in ECR such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        "SageMaker pulls from ECR: copy the image there",
    ),
]
FileSystemId = Annotated[str, _form(r"fs-[0-9a-f]{8,}", "a file system's id (fs-…)")]
Directory = Annotated[
    str, _form(r"/[^\s]*", "an absolute path on the file system, such as /fsx of Lustre's mount name")
]
SageMakerType = Annotated[str, BeforeValidator(_instance_type)]


class FileSystem(Section):
    """A file system of the VPC. job.yaml names its data as on the cluster, by the path below `mount`."""

    mount: MountPoint
    id: FileSystemId
    type: Literal["EFS", "FSxLustre"]
    directory: Directory = "/"
    """What `mount` shows: / of EFS; of Lustre, / and its mount name."""


class Choice(Section):
    """How SageMaker feeds one of the job's channels, where the default does not do."""

    mode: Literal["File", "FastFile", "Pipe"] | None = None
    shuffle_seed: Whole | None = None
    records: Literal["RecordIO"] | None = None
    """SageMaker wraps each object: of a Pipe, nothing else shows where one ends."""
    per: Literal["global-rank", "local-rank"] | None = None
    """For Pipe: which ranks have a channel of their own. Default: `channels` chooses."""


class Target(Section):
    region: RegionName
    role_arn: RoleArn
    bucket: Bucket
    instance_type: SageMakerType
    image: EcrImage | None = None
    """Default: AWS's image for the job's framework (images.csv)."""
    subnets: tuple[SubnetId, ...] = ()
    security_groups: tuple[SecurityGroupId, ...] = ()
    kms_key_arn: KmsKeyArn | None = None
    volume_gb: Annotated[int, Field(strict=True, ge=1)] = 100
    """For types without local disks."""
    spot: bool = False
    max_wait: TimeLimit | None = None
    """For spot: the time for waiting and running together."""
    file_systems: tuple[FileSystem, ...] = ()
    channels: dict[str, Choice] = {}

    @model_validator(mode="after")
    def _together(self) -> "Target":
        if bool(self.subnets) != bool(self.security_groups):
            raise refuse("subnets and security_groups belong together", "give both, or neither")
        if self.file_systems and not self.subnets:
            raise refuse("file_systems need subnets and security_groups", "name those from which they can be mounted")
        if self.spot and not self.max_wait:
            raise refuse("spot needs max_wait", "such as 24h: the time for waiting and running together")
        if self.max_wait and not self.spot:
            raise refuse("max_wait needs spot: true", "remove one of the two")
        return self

    @property
    def hardware(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type.removeprefix(PREFIX)]

    @property
    def root(self) -> str:
        """What our jobs put into the bucket."""
        return f"s3://{self.bucket}/gpucluster"


def is_target(path: Path) -> bool:
    """Whether the file looks like one, and not like a cluster file. False if it cannot be read."""
    from gpucluster.config.parse import parse

    try:
        data = parse(path.read_text(encoding="utf-8"), str(path)).data
    except (OSError, UnicodeDecodeError):
        return False
    return isinstance(data, dict) and "role_arn" in data and "partitions" not in data


def load(path: Path) -> Target:
    """Raises ConfigError with every problem of the file."""
    from gpucluster.config.parse import parse

    try:
        document = parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise _whole(path, "no such file", f"write one, or name it with -c; {EXAMPLE}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _whole(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return loads(document)


def loads(document: Document) -> Target:
    """Raises ConfigError."""
    data = document.data
    if isinstance(data, dict) and "partitions" in data:
        raise _whole(document.file, "this is a cluster file", f"-c names {FILE} with --on sagemaker; {EXAMPLE}")
    if document.problems or not isinstance(data, dict):
        raise ConfigError(document.problems or [document.notice(Finding((), "must be a section", EXAMPLE))])
    try:
        return Target.model_validate(data)
    except ValidationError as error:
        notices = [document.notice(_finding(fault)) for fault in error.errors()]
    raise ConfigError(sorted(notices, key=lambda notice: (notice.line, notice.column)))


def _finding(fault: Any) -> Finding:
    path = tuple(part for part in fault["loc"] if part != "[key]")
    sections: dict[str, type[BaseModel]] = {"file_systems": FileSystem, "channels": Choice}
    section = sections.get(str(path[0]), Target) if len(path) > 1 else Target
    return worded(fault, path, list(section.model_fields))


def _whole(file: Path | str, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError([Notice("error", str(file), 0, 0, "", message, hint=hint)])
