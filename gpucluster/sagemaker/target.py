"""sagemaker.yaml: where in SageMaker jobs run, with which role, bucket and machines.

The lengths and patterns of what goes into the request are those of botocore's model (`limits`).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ValidationError, model_validator

from gpucluster.config.document import Document, Finding
from gpucluster.config.fields import MountPoint, RegionName, Whole
from gpucluster.config.sagemaker import PREFIX, SageMaker, form
from gpucluster.config.section import Section
from gpucluster.config.value_checks import refuse
from gpucluster.config.wording import finding as worded
from gpucluster.errors import ConfigError, Notice, UsageError
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType

FILE = "sagemaker.yaml"
EXAMPLE = "docs/sagemaker.md has an example"


FileSystemId = Annotated[str, form(r"fs-[0-9a-f]{8,}", "a file system's id (fs-…)")]
Directory = Annotated[str, form(r"/[^\s]*", "an absolute path on the file system, such as /fsx of Lustre's mount name")]


class FileSystem(Section):
    """A file system of the VPC. job.yaml names its data as on the cluster, by the path below `mount`."""

    mount: MountPoint
    id: FileSystemId
    type: Literal["EFS", "FSxLustre"]
    directory: Directory = "/"
    """What `mount` shows: / of EFS; of Lustre, / and its mount name."""

    @model_validator(mode="after")
    def _mount_name(self) -> "FileSystem":
        if self.type == "FSxLustre" and self.directory == "/":  # amazon-sagemaker-examples#2183
            hint = "such as /abcdefgh; `aws fsx describe-file-systems` shows MountName"
            raise refuse("FSxLustre needs as directory its mount name, got /", hint)
        return self


class Choice(Section):
    """How SageMaker feeds one of the job's channels, where the default does not do."""

    mode: Literal["File", "FastFile", "Pipe"] | None = None
    shuffle_seed: Whole | None = None
    records: Literal["RecordIO"] | None = None
    """SageMaker wraps each object: of a Pipe, nothing else shows where one ends."""
    per: Literal["global-rank", "local-rank"] | None = None
    """For Pipe: which ranks have a channel of their own. Default: `channels` chooses."""

    @model_validator(mode="after")
    def _of_pipes(self) -> "Choice":
        if (self.records or self.per) and self.mode != "Pipe":
            raise refuse("records and per are for mode: Pipe", "add mode: Pipe, or leave them out")
        return self


class Target(SageMaker):
    region: RegionName
    file_systems: tuple[FileSystem, ...] = ()
    channels: dict[str, Choice] = {}

    @model_validator(mode="after")
    def _mounts(self) -> "Target":
        if self.file_systems and not self.subnets:
            raise refuse("file_systems need subnets and security_groups", "name those from which they can be mounted")
        return self

    @property
    def hardware(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type.removeprefix(PREFIX)]

    @property
    def disk_gb(self) -> int:
        """What each host has: its local disks, or its volume."""
        return self.hardware.nvme_gb or self.volume_gb

    @property
    def root(self) -> str:
        """What our jobs put into the bucket."""
        return f"s3://{self.bucket}/gpucluster"


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
        raise _whole(document.file, "this is a cluster file", EXAMPLE)
    if document.problems or not isinstance(data, dict):
        raise ConfigError(document.problems or [document.notice(Finding((), "must be a section", EXAMPLE))])
    try:
        return Target.model_validate(data)
    except ValidationError as error:
        notices = [document.notice(_finding(fault)) for fault in error.errors()]
    raise ConfigError(sorted(notices, key=lambda notice: (notice.line, notice.column)))


def with_type(target: Target, name: str) -> Target:
    """The target with other machines. Raises UsageError."""
    try:
        return Target.model_validate(target.model_dump() | {"instance_type": name})
    except ValidationError as error:
        found = _finding(error.errors()[0])
        raise UsageError(f"--instance-type: {found.message}", found.hint) from None


def _finding(fault: Any) -> Finding:
    path = tuple(part for part in fault["loc"] if part != "[key]")
    sections: dict[str, type[BaseModel]] = {"file_systems": FileSystem, "channels": Choice}
    section = sections.get(str(path[0]), Target) if len(path) > 1 else Target
    return worded(fault, path, list(section.model_fields))


def _whole(file: Path | str, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError([Notice("error", str(file), 0, 0, "", message, hint=hint)])
