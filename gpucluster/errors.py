"""All exceptions that this package raises on purpose.

    GpuClusterError                 exit code 1
    ├── UserError                   exit code 2: a mistake in what the user typed or wrote
    │   ├── UsageError              a flag, an argument, a missing file
    │   └── ConfigError             cluster.yaml: every problem at once
    │       └── JobSpecError        job.yaml or the flags of `submit`, likewise
    ├── CloudError                  exit code 3: AWS, or what runs there
    │   ├── AwsError                an API call refused or failed
    │   │   └── AccessError         no credentials, wrong or expired ones, or too few permissions
    │   ├── CapacityError           AWS has none of the instance types left
    │   │   └── QuotaError          a quota of the account is too low: every shortage at once
    │   ├── DeployError             the stack could not be deployed, or the head node's boot failed
    │   ├── NotDeployedError        the cluster does not exist
    │   └── RemoteError             the head node cannot be reached, or a command on it failed
    │       └── UnansweredError     a command was sent, and it is not known how it ended
    ├── DataError                   exit code 1: data that cannot be read or written, or differs from its manifest
    └── JobFailedError              exit code 4: the job ran and failed

A message says what is wrong, where, the given value and the allowed ones: lower case, no full stop. The hint says what
to do next.
ConfigError and QuotaError carry many at once: they are `Problems`.
Imports no other module of the project and nothing slow, because `--help` loads it.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

INTERRUPTED_EXIT_CODE = 130


class Notice(NamedTuple):
    """A finding about one place in a file of the user's. Lines and columns count from 1; line 0 is the whole file."""

    level: Literal["error", "warning"]
    file: str
    line: int
    column: int
    key: str
    """The key's path, such as `partitions[0].efa`. Empty for the whole file."""
    message: str
    source: str = ""
    """The text of the line, which is printed above the caret."""
    hint: str | None = None
    validator: str = ""
    """Its name in `silence` and docs/validators.md; empty if the file itself is malformed."""

    def render(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        subject = f"{self.key}: " if self.key else ""
        name = f" [{self.validator}]" if self.validator else ""
        lines = [f"{place}: {self.level}: {_cut(subject)}{_cut(self.message)}{name}"]
        if self.source.strip():
            before, after = _window(self.source.rstrip(), self.column - 1)
            lines += [f"  {before}{after}", f"  {_blank(before)}^"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


LONGEST_LINE = 160
"""If the file is one long line, only the part around the caret is shown."""


LONGEST_MESSAGE = 2000
"""A message may quote the given value, which may be as long as a file."""


def _cut(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[: LONGEST_MESSAGE // 2]}… ({len(text)} characters) …{text[-LONGEST_MESSAGE // 20 :]}"


def _window(line: str, index: int) -> tuple[str, str]:
    """The part of the line before the index, and the part from it on."""
    if len(line) <= LONGEST_LINE:
        return line[:index], line[index:]
    start, end = max(0, index - LONGEST_LINE // 2), index + LONGEST_LINE // 2
    return "…" * (start > 0) + line[start:index], line[index:end] + "…" * (end < len(line))


def _blank(text: str) -> str:
    """Blanks as wide as the text on a terminal: tabs stay tabs, so that the caret stands under its column."""
    return "".join("\t" if character == "\t" else " " for character in text)


class GpuClusterError(Exception):
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def render(self) -> str:
        """The text that the command line prints to stderr."""
        return f"error: {self.message}" + (f"\nhint: {self.hint}" if self.hint else "")


class UserError(GpuClusterError):
    exit_code = 2


class UsageError(UserError):
    pass


MOST_SHOWN = 50


class Problems(GpuClusterError):
    """All problems of one file, warnings among them. `message` counts them, `render()` prints each with its place."""

    def __init__(self, problems: Sequence[Notice], hint: str | None = None) -> None:
        self.problems = tuple(problems)
        count = sum(problem.level == "error" for problem in self.problems)
        super().__init__(f"{self.problems[0].file}: {count} problem{'s' if count != 1 else ''}", hint)

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        text = "\n".join(problem.render() for problem in self.problems[:MOST_SHOWN])
        if len(self.problems) > MOST_SHOWN:
            text += f"\nand {len(self.problems) - MOST_SHOWN} more; `gpucluster validate --json` lists all"
        return text + (f"\nhint: {self.hint}" if self.hint else "")


class ConfigError(Problems, UserError):
    pass


class JobSpecError(ConfigError):
    pass


class CloudError(GpuClusterError):
    exit_code = 3


class AwsError(CloudError):
    pass


class AccessError(AwsError):
    pass


class CapacityError(CloudError):
    pass


class QuotaError(Problems, CapacityError):
    pass


class DeployError(CloudError):
    pass


class NotDeployedError(CloudError):
    pass


class RemoteError(CloudError):
    pass


class UnansweredError(RemoteError):
    pass


class DataError(GpuClusterError):
    pass


class JobFailedError(GpuClusterError):
    exit_code = 4
