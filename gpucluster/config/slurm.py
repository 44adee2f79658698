"""The section `slurm` of cluster.yaml: how Slurm schedules, and the user's lines for its files."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WrapValidator

from gpucluster.config.limits import Limit
from gpucluster.config.section import Section, pass_refused
from gpucluster.config.value_checks import field, refuse

# s_keyvalue_pattern of Slurm's parser (src/common/parse_config.c): a value in quotes may have spaces.
_PAIR = re.compile(r'(?:^|\s+)([A-Za-z0-9_.]+)\s*[-+*/]?=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
OPTION_VALUE = r'[^\s#"\\]+'
YIELDED: tuple[str, ...] = (
    "KillWait",
    "MaxBatchRequeue",
    "MaxJobCount",
    "MessageTimeout",
    "MinJobAge",
    "MpiDefault",
    "SlurmdTimeout",
    "UnkillableStepTimeout",
)
"""Parameters of slurm.conf that GpuCluster sets, and that lines of `slurm_conf` may set instead: nothing depends on
them."""


class Pair(NamedTuple):
    line: int
    name: str
    value: str


def pairs(text: str) -> Iterator[Pair]:
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (Pair(number, found[1], found[2].strip('"')) for found in _PAIR.finditer(_bare(line)))


def malformed(text: str) -> Iterator[tuple[int, str]]:
    """The lines of which Slurm's parser would not read everything."""
    for number, line in enumerate(text.splitlines(), start=1):
        if _PAIR.sub("", _bare(line)).strip():
            yield number, line.strip()


def _bare(line: str) -> str:
    """Without its comment."""
    return re.sub(r"(^|\s)#.*", "", line)


@field(
    "slurm-option-value",
    section="Slurm",
    source="https://github.com/SchedMD/slurm/blob/slurm-23-11-4-1/src/common/parse_config.c: s_keyvalue_pattern",
)
def _option_value(value: str) -> str:
    """The value of a partition's or node's option is one word."""
    if not re.fullmatch(OPTION_VALUE, value):
        raise refuse(f"must be one word without quotes, # and backslashes, got {value!r}")
    return value


def _word(value: Any) -> Any:
    """YAML's numbers and booleans, as Slurm writes them."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value) if isinstance(value, (int, float)) else value


Options = dict[str, Annotated[str, BeforeValidator(_word), AfterValidator(_option_value), WrapValidator(pass_refused)]]


class Slurm(Section):
    heading: ClassVar[str] = "Slurm"

    memory: Annotated[
        Literal["shared", "allocated"], Limit("slurm-memory", "man slurm.conf.5: SelectTypeParameters: CR_CPU_Memory")
    ] = "shared"
    slurm_conf: Annotated[str, Field(strict=True)] = ""
    cgroup_conf: Annotated[str, Field(strict=True)] = ""
    gres_conf: Annotated[str, Field(strict=True)] = ""

    @property
    def gres_types(self) -> tuple[str, ...]:
        """The generic resources that its lines of gres.conf name."""
        return tuple(dict.fromkeys(each.value for each in pairs(self.gres_conf) if each.name.lower() == "name"))
