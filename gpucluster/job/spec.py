"""The user's request as one frozen model: the keys of job.yaml and the flags of `submit`.

A field checks its own value. `checks` compares the values with the cluster.
"""

import re
from collections.abc import Callable
from math import ceil
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpucluster import job_keys
from gpucluster.addresses import in_s3
from gpucluster.config.document import as_written
from gpucluster.config.durations import TimeLimit
from gpucluster.config.durations import seconds_of as seconds_of
from gpucluster.config.durations import slurm_time as slurm_time
from gpucluster.config.fields import Amount, Count, Whole
from gpucluster.config.models import Framework
from gpucluster.config.s3_form import any_s3_uri, is_meant
from gpucluster.config.section import Separate
from gpucluster.config.value_checks import matching, refuse
from gpucluster.job import arrays, command_line, log_place, reserved, sbatch_options, swept
from gpucluster.launchers import DEFAULT

LONGEST_WORD = 131_000
# defer_build: the validators of a job's parts are built with the job's, and only once there is a job.
STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _word(value: Any) -> Any:
    """YAML reads `10` and `0.10` as numbers; a program gets them as they are written."""
    return as_written(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _command(value: Any) -> Any:
    return command_line.words(value) if isinstance(value, str) else value


def _no_nul(value: str) -> str:
    """Linux passes no NUL to a program, and at most 128 KiB, which includes a variable's name."""
    if "\0" in value:
        raise refuse("must not contain a NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise refuse(f"must be valid Unicode text, got {value[error.start]!r} in it") from None
    if size > LONGEST_WORD:
        raise refuse(f"must be at most {LONGEST_WORD} bytes (a limit of Linux), got {size}", "put it into a file")
    return value


def _free(value: str) -> str:
    if refused := reserved.refusal(value):
        raise refuse(f"{value} cannot be set: {refused[0]}", refused[1])
    return value


def _not_ours(option: str) -> str:
    if why := sbatch_options.refusal(option):
        raise refuse(*why)
    return option


def _matching(pattern: str, what: str, hint: str = "") -> AfterValidator:
    return AfterValidator(matching(pattern, what, hint))


Word = Annotated[str, BeforeValidator(_word), AfterValidator(_no_nul)]
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
Name = Annotated[str, _matching(NAME, "up to 64 letters, digits, dots, hyphens and underscores")]
VariableName = Annotated[
    str,
    _matching(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name: letters, digits, underscores"),
    AfterValidator(_free),
]
Command = Annotated[tuple[Word, ...], BeforeValidator(_command), Field(min_length=1)]
Signal = Annotated[
    str, _matching(r"USR[12](@[0-9]{1,5})?", "USR1 or USR2, and @seconds before the limit, such as USR1@120")
]
# sbatch splits #SBATCH lines by its own rules; they make no difference for an option without blanks and quotes.
SbatchOption = Annotated[
    str,
    _matching(r"--?[A-Za-z][^\s'\"\\#]*", "one option of sbatch without spaces, such as --nice=100"),
    AfterValidator(_not_ours),
]


def _one(value: Any) -> Any:
    """A single string means a list with one item."""
    return [value] if isinstance(value, str) else value


Requirement = Annotated[
    str, _matching(r"[^\n\0]*\S[^\n\0]*", "a requirement such as 'torchvision>=0.20', or a requirements file")
]
Requirements = Annotated[tuple[Requirement, ...], BeforeValidator(_one)]
SetupLine = Annotated[str, AfterValidator(_no_nul)]
Setup = Annotated[tuple[SetupLine, ...], BeforeValidator(_one)]

SweptName = Annotated[
    str, _matching(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", "up to 64 letters, digits, and any of _ . -, a letter first")
]
SweptValues = Annotated[tuple[Word, ...], BeforeValidator(swept.values), Field(min_length=1)]
Array = Annotated[str, BeforeValidator(arrays.array)]
LogPath = Annotated[str, BeforeValidator(log_place.pattern)]

SlurmName = Annotated[str, _matching(r"[^\s,'\"\\#=]+", "one name that Slurm knows, without spaces and commas")]
SlurmNames = Annotated[str, _matching(r"[^\s'\"\\#=]+", "names that Slurm knows, without spaces")]
Memory = Annotated[
    str,
    BeforeValidator(_word),
    _matching(r"[0-9]+([KMGTkmgt][Bb]?)?", "a size for each node such as 64G, or 0 for all; without a unit: MiB"),
]
_CONDITION = r"(singleton|after(any|ok|notok|corr|burstbuffer)?(:\d+(_\d+)?(\+\d+)?)+)"
Dependency = Annotated[
    str,
    BeforeValidator(_word),
    _matching(
        rf"{_CONDITION}(,{_CONDITION})*",
        "conditions of sbatch joined by commas, such as afterok:12 or afterany:12:13,singleton",
    ),
]
Begin = Annotated[
    str,
    _matching(r"[A-Za-z0-9/:+-]+", "a time such as 16:00, 2027-01-20T12:34:00, tomorrow or now+2hours, without spaces"),
]

EVENTS = ("start", "end", "failure", "hang")
_EVENT = "|".join(EVENTS)
NoticeTarget = Annotated[
    str,
    _matching(
        rf"[A-Za-z_][A-Za-z0-9_]*(:({_EVENT})(,({_EVENT}))*)?",
        "email, or the name of a variable that has a webhook's address, and perhaps of what it is told, such as "
        f"email:failure; known: {', '.join(EVENTS)}",
    ),
]

ContainerMount = Annotated[
    str, _matching(r"/[^\s:,]*:/[^\s:,]*(:(ro|rw))?", "FROM:TO or FROM:TO:ro with absolute paths, such as /fsx:/fsx")
]


def _expression(value: str) -> str:
    try:
        compiled = re.compile(value)
    except re.error as error:
        raise refuse(f"must be a regular expression: {error}, got {value!r}") from None
    groups = compiled.groups - ("step" in compiled.groupindex)
    if groups != 1:
        hint = r"such as 'accuracy: ([0-9.]+)'; (?:…) groups without capturing; (?P<step>…) may capture the step"
        raise refuse(f"must have exactly one group, which captures the value, got {groups}: {value!r}", hint)
    return value


MetricName = Annotated[
    str, _matching(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}", "up to 64 letters, digits and _ . : / -, starting with a letter")
]
Expression = Annotated[str, AfterValidator(_expression)]


class Servers(BaseModel):
    """Parameter servers beside the workers. Without `nodes` or `ratio`, they run on the workers' nodes."""

    model_config = STRICT

    nodes: Count | None = None
    """Nodes of the partition `ps`. Without that partition the same number of servers runs on the workers' nodes."""
    ratio: Amount | None = None
    """Instead of nodes: server nodes for each worker node."""
    per_node: Count = 1
    """Server processes on each of those nodes."""

    @model_validator(mode="after")
    def _one_number(self) -> "Servers":
        if self.nodes and self.ratio:
            raise refuse("nodes and ratio exclude each other", "keep one of the two")
        return self

    def beside(self, workers: int) -> "Servers":
        """The number of server nodes for this many worker nodes."""
        return Servers(nodes=ceil(self.ratio * workers), per_node=self.per_node) if self.ratio else self


ChannelName = Annotated[str, _matching(r"[a-z][a-z0-9_]{0,31}", "up to 32 lower-case letters, digits and underscores")]
_SHARED_PATH = _matching(r"/[^\0\n]*", "an absolute path on the cluster, such as /fsx/folder")
_LOCAL = ("./", "../", "~/")
SharedPath = Annotated[str, _SHARED_PATH]


def _s3_or(path: AfterValidator) -> AfterValidator:
    """One check for both kinds: for a union, pydantic would report both branches and its own function names."""
    check = cast(Callable[[str], str], path.func)
    return AfterValidator(lambda value: any_s3_uri(value) if is_meant(value) else check(value))


_STATE_PATH = _matching(
    r"/[^\0\n]*", "an S3 address such as s3://bucket/prefix, or an absolute path on the cluster such as /fsx/states"
)
Source = Annotated[str, _s3_or(_STATE_PATH)]
_ANY_PATH = _matching(
    r"(/|\.\.?/|~/)[^\0\n]*",
    "an S3 address such as s3://bucket/prefix, an absolute path on the cluster such as /fsx/imagenet, or a folder here "
    "such as ./data",
)
ChannelSource = Annotated[str, _s3_or(_ANY_PATH)]


TaskName = Annotated[str, BeforeValidator(_word), _matching(rf"({NAME}/)?{NAME}", "a task: NAME or PROJECT/NAME")]
After = Annotated[
    str, BeforeValidator(_word), _matching(rf"({NAME}/)?{NAME}", "the id of a job, or a task: NAME or PROJECT/NAME")
]
OutputName = ChannelName


def _outputs(value: Any) -> Any:
    """`[shards]` is short for a folder inside the task's folder."""
    value = _one(value)
    return (
        dict.fromkeys(value)
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        else value
    )


class Channel(BaseModel):
    """Input data under a name that the job chooses. Ranks find their part through `GPUCLUSTER_CHANNEL_<NAME>`."""

    model_config = STRICT

    @model_validator(mode="before")
    @classmethod
    def _source_alone(cls, value: Any) -> Any:
        """`train: /fsx/imagenet` is short for `train: {source: /fsx/imagenet}`, as --channel has it."""
        return {"source": value} if isinstance(value, str) else value

    source: ChannelSource = ""
    """Not set if a task is named: the source is then its output."""
    task: TaskName | None = None
    """The job waits for this task and reads its output."""
    output: OutputName | None = None
    shard: Literal["by-rank", "by-node", "none"] = "by-rank"
    """Who reads a shard: one rank, the ranks of one node, or all."""
    mode: Literal["mount", "copy", "stream"] | None = None
    """Default: mount for a path, copy for s3."""
    unpack: Literal["tar", "none"] = "none"

    @model_validator(mode="after")
    def _one_source(self) -> "Channel":
        if (self.task is None) != (self.output is None):
            raise refuse("needs both a task and its output", "such as {task: prepare, output: shards}")
        if not self.task and not self.source:
            raise refuse("needs a source", "such as /fsx/imagenet, or a task and its output")
        if self.task and self.source and not self.source.endswith(f"/{self.task}/outputs/{self.output}"):
            raise refuse("source and task exclude each other", "keep one of the two")
        return self

    @property
    def is_local(self) -> bool:
        """A folder on the submitting machine, which `submit` uploads (gpucluster/submission/inputs.py)."""
        return self.source.startswith(_LOCAL)

    @property
    def how(self) -> Literal["mount", "copy", "stream"]:
        return self.mode or ("copy" if in_s3(self.source) else "mount")


class JobSpec(BaseModel):
    """gpucluster/job_keys.py says what each field means, and what it is if it is not set."""

    model_config = STRICT

    name: Name | None = None
    project: Name | None = None
    partition: str | None = None
    target: job_keys.Target = "cluster"
    nodes: Count = 1
    gpus_per_node: Whole | None = None
    ntasks_per_node: Count | None = None
    launcher: str = DEFAULT
    framework: Framework | None = None
    controller: job_keys.Controller = "gloo"
    min_nodes: Count | None = None
    command: Command
    time: TimeLimit | None = None
    env: dict[VariableName, Word] = {}
    secrets: tuple[VariableName, ...] = ()
    workdir: str | None = "."
    python: SharedPath | None = None
    requirements: Requirements = ()
    setup: Setup = ()
    servers: Annotated[Servers, Separate()] | None = None
    efa: job_keys.Efa = "auto"
    preflight: job_keys.Preflight = "quick"
    container_image: str | None = None
    container_mounts: tuple[ContainerMount, ...] = ()
    requeue: bool = True
    exclusive: bool = True
    signal: Signal | None = None
    hang_timeout: TimeLimit | None = None
    array: Array | None = None
    sweep: dict[SweptName, SweptValues] = {}
    max_parallel: Count | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    mem: Memory | None = None
    mem_per_gpu: Memory | None = None
    cpus_per_task: Count | None = None
    binding: job_keys.Binding = "numa"
    constraint: SlurmNames | None = None
    reservation: SlurmNames | None = None
    dependency: Dependency | None = None
    begin: Begin | None = None
    output: LogPath | None = None
    sbatch_args: tuple[SbatchOption, ...] = ()
    state: Source | None = None
    resubmit: job_keys.Resubmit | None = None
    resubmit_limit: Count | None = None
    channels: dict[ChannelName, Annotated[Channel, Separate()]] = {}
    outputs: Annotated[dict[OutputName, SharedPath | None], BeforeValidator(_outputs)] = {}
    after: Annotated[tuple[After, ...], BeforeValidator(lambda value: _one(_word(value)))] = ()
    exports: tuple[SharedPath, ...] = ()
    metrics: dict[MetricName, Expression] = {}
    notify: Annotated[tuple[NoticeTarget, ...], BeforeValidator(_one)] = ()

    @property
    def elements(self) -> tuple[int, ...]:
        """The indexes of an array's or a sweep's elements. Empty for a plain job."""
        return arrays.elements(self.sweep, self.array)

    @property
    def elements_at_once(self) -> int | None:
        return self.max_parallel or (arrays.at_once(self.array) if self.array else None)

    @property
    def ranks_per_node(self) -> int:
        return self.ntasks_per_node or self.gpus_per_node or 1

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node
