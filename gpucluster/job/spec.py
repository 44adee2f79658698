"""What a user asks for: one frozen model, the keys of job.yaml and the flags of `submit`.

A field checks its own value. What must agree with the cluster is in `checks`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from math import ceil
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpucluster.addresses import in_s3
from gpucluster.config.fields import S3_URI, Amount, Count, Whole
from gpucluster.config.models import Framework
from gpucluster.config.value_checks import matching, refuse
from gpucluster.job import reserved, sbatch_options
from gpucluster.launchers import DEFAULT

_TIME = re.compile(r"(?:(\d+)-(\d{1,2})(?::([0-5]?\d))?(?::([0-5]?\d))?|(\d+)(?::([0-5]?\d))?(?::([0-5]?\d))?)")
_DURATION = re.compile(r"(\d+)\s*([smhd])")
LONGEST_WORD = 131_000
# defer_build: the validators of a job's parts are built within the job's, and that when there is a job.
STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(time: str) -> int:
    """Of Slurm's forms: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; and of 90m, 24h, 2d. Raises ValueError."""
    if short := _DURATION.fullmatch(time):
        return int(short[1]) * _SECONDS[short[2]]
    if not (match := _TIME.fullmatch(time)):
        raise ValueError(time)
    days, hours, minutes, seconds, *rest = (int(part) if part else 0 for part in match.groups())
    if match[1] is None:
        first, second, third = rest
        hours, minutes, seconds = (first, second, third) if match[7] else (0, first, second)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def slurm_time(seconds: int) -> str:
    """`[D-]HH:MM:SS`, as squeue shows it."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def _time(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    try:
        seconds = seconds_of(value.strip())
    except ValueError:
        raise refuse(
            f"must be a time such as 2:00:00 (hours:minutes:seconds), 1-12:00:00 or 90m, got {value!r}"
        ) from None
    if seconds <= 0:
        raise refuse(f"must be more than nothing, got {value!r}")
    return slurm_time(seconds)


def _word(value: Any) -> Any:
    """YAML reads `10` and `0.1` as numbers; a program is given them as text."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _command(value: Any) -> Any:
    """A line of text is split as a shell splits it, and is refused where only a shell could run it."""
    if not isinstance(value, str):
        return value
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise refuse(f"cannot be split into words: {error}", "write a list: [python, train.py]") from None
    shell = next((mark for mark in ("&&", "||", "|", ";", ">", "<", "$", "`", "\n") if mark in value), None)
    if shell:
        raise refuse(f"needs a shell for {shell!r}", "write a list: [bash, -c, '…']")
    return words


def _no_nul(value: str) -> str:
    """What Linux passes to a program: no NUL, and no more than 128 KiB, of which a variable's name takes its share."""
    if "\0" in value:
        raise refuse("must not contain a NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise refuse(f"must be Unicode text, got {value[error.start]!r} in it") from None
    if size > LONGEST_WORD:
        raise refuse(f"must be at most {LONGEST_WORD} bytes, as Linux has it, got {size}", "put it into a file")
    return value


def _free(value: str) -> str:
    if why := reserved.refusal(value):
        raise refuse(f"{value} cannot be set: {why}", "choose another name")
    return value


def _not_ours(option: str) -> str:
    if why := sbatch_options.refusal(option):
        raise refuse(*why)
    return option


def _matching(pattern: str, what: str, hint: str = "") -> AfterValidator:
    return AfterValidator(matching(pattern, what, hint))


Word = Annotated[str, BeforeValidator(_word), AfterValidator(_no_nul)]
Name = Annotated[
    str, _matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "up to 64 letters, digits, dots, hyphens and underscores")
]
VariableName = Annotated[
    str,
    _matching(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name: letters, digits, underscores"),
    AfterValidator(_free),
]
Command = Annotated[tuple[Word, ...], BeforeValidator(_command), Field(min_length=1)]
TimeLimit = Annotated[str, BeforeValidator(_time)]
Signal = Annotated[
    str, _matching(r"USR[12](@[0-9]{1,5})?", "USR1 or USR2, and @seconds before the limit, such as USR1@120")
]
# sbatch splits #SBATCH lines by rules of its own; an option without blanks and quotes means the same to it as to us.
SbatchOption = Annotated[
    str,
    _matching(r"--?[A-Za-z][^\s'\"\\#]*", "one option of sbatch without blanks, such as --reservation=mine"),
    AfterValidator(_not_ours),
]


def _one(value: Any) -> Any:
    """One text is short for a list of one."""
    return [value] if isinstance(value, str) else value


Requirement = Annotated[
    str, _matching(r"[^\n\0]*\S[^\n\0]*", "a requirement such as 'torchvision>=0.20', or a file of them")
]
Requirements = Annotated[tuple[Requirement, ...], BeforeValidator(_one)]
SetupLine = Annotated[str, AfterValidator(_no_nul)]
Setup = Annotated[tuple[SetupLine, ...], BeforeValidator(_one)]

ContainerMount = Annotated[
    str, _matching(r"/[^\s:,]*:/[^\s:,]*(:(ro|rw))?", "FROM:TO or FROM:TO:ro, of absolute paths, such as /fsx:/fsx")
]


def _expression(value: str) -> str:
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise refuse(f"is no regular expression: {error}, got {value!r}") from None
    if groups != 1:
        hint = r"such as 'accuracy: ([0-9.]+)'; (?:…) groups without counting"
        raise refuse(f"must have one group, which is the value, has {groups}: {value!r}", hint)
    return value


MetricName = Annotated[
    str, _matching(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}", "up to 64 letters, digits, and any of _ . : / -, a letter first")
]
Expression = Annotated[str, AfterValidator(_expression)]


class Servers(BaseModel):
    """Parameter servers beside the workers. Left out, or without a number of nodes: on the workers' own nodes."""

    model_config = STRICT

    nodes: Count | None = None
    """Of the partition `ps`. A cluster that has none runs as many servers on the workers' nodes."""
    ratio: Amount | None = None
    """Instead of nodes: server nodes for each worker node."""
    per_node: Count = 1
    """Server processes on each of those nodes."""

    @model_validator(mode="after")
    def _one_number(self) -> Servers:
        if self.nodes and self.ratio:
            raise refuse("nodes and ratio are two ways to say one thing", "keep one of the two")
        return self

    def beside(self, workers: int) -> Servers:
        """With the ratio worked out for so many worker nodes."""
        return Servers(nodes=ceil(self.ratio * workers), per_node=self.per_node) if self.ratio else self


ChannelName = Annotated[str, _matching(r"[a-z][a-z0-9_]{0,31}", "up to 32 small letters, digits and underscores")]
_SHARED_PATH = _matching(r"/[^\0\n]*", "an absolute path, such as /fsx/imagenet")
SharedPath = Annotated[str, _SHARED_PATH]


def _source(value: str) -> str:
    """One check for both kinds: of a union, pydantic would report both branches and name its own functions."""
    check = cast(Callable[[str], str], (S3_URI if in_s3(value) else _SHARED_PATH).func)
    return check(value)


Source = Annotated[str, AfterValidator(_source)]


class Channel(BaseModel):
    """Input data, under a name of the job's choice. Ranks find their part by `GPUCLUSTER_CHANNEL_<NAME>`."""

    model_config = STRICT

    @model_validator(mode="before")
    @classmethod
    def _source_alone(cls, value: Any) -> Any:
        """`train: /fsx/imagenet` is short for `train: {source: /fsx/imagenet}`, as --channel has it."""
        return {"source": value} if isinstance(value, str) else value

    source: Source
    shard: Literal["by-rank", "by-node", "none"] = "by-rank"
    """Who reads a shard: one rank, the ranks of one node, or all."""
    mode: Literal["mount", "copy", "stream"] | None = None
    """Left out: mount for a path, copy for s3."""
    unpack: Literal["tar", "none"] = "none"

    @property
    def how(self) -> Literal["mount", "copy", "stream"]:
        return self.mode or ("copy" if in_s3(self.source) else "mount")


class JobSpec(BaseModel):
    model_config = STRICT

    name: Name | None = None
    """Left out: from the program's file name."""
    partition: str | None = None
    """Left out: the cluster's first."""
    nodes: Count = 1
    gpus_per_node: Whole | None = None
    """Left out: all that a node has."""
    ntasks_per_node: Count | None = None
    """Ranks on each node. Left out: one per GPU, or one."""
    launcher: str = DEFAULT
    framework: Framework | None = None
    """Whose environment the ranks run in. Left out: the launcher's own, or the cluster's first."""
    controller: Literal["gloo", "mpi"] = "gloo"
    """What horovodrun starts and coordinates the ranks with."""
    min_nodes: Count | None = None
    """horovodrun alone: elastic. The job goes on with as few nodes as these when it loses some."""
    command: Command
    time: TimeLimit | None = None
    env: dict[VariableName, Word] = {}
    secrets: tuple[VariableName, ...] = ()
    """Names of variables of the submitter's environment. Their values reach the ranks and nothing else."""
    workdir: str | None = "."
    """What is copied to the cluster, and where the command runs. Relative to job.yaml, or to the current directory."""
    python: SharedPath | None = None
    """The folder of a virtual environment, or of conda's, in place of the cluster's environment."""
    requirements: Requirements = ()
    """Packages for the ranks beyond the environment's: requirements, and files of them, seen from job.yaml."""
    setup: Setup = ()
    """Lines of bash that make more of them: run once for the same lines, requirements and files."""
    servers: Servers | None = None
    efa: Literal["auto", "required"] = "auto"
    preflight: Literal["off", "quick", "full"] = "quick"
    """What is checked before the command starts; full: bandwidth as well."""
    container_image: str | None = None
    """Through pyxis: a registry's image or a squashfs file. The ranks run in it, without the cluster's environment."""
    container_mounts: tuple[ContainerMount, ...] = ()
    requeue: bool = True
    exclusive: bool = True
    signal: Signal | None = None
    """What the ranks' programs are sent before the time limit."""
    sbatch_args: tuple[SbatchOption, ...] = ()
    channels: dict[ChannelName, Channel] = {}
    exports: tuple[SharedPath, ...] = ()
    """Folders of a Lustre file system that are back in their S3 before the job counts as ended."""
    metrics: dict[MetricName, Expression] = {}
    """Name -> what finds its value in a line of the log. result.json then has the values."""

    @property
    def ranks_per_node(self) -> int:
        return self.ntasks_per_node or self.gpus_per_node or 1

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node
