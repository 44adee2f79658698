"""The script that `context add` runs on the login node, and the facts in its output. Checks if our jobs can run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucluster.errors import UsageError
from gpucluster.head.remote import Remote

PYTHON_AT_LEAST = (3, 8)
"""gpucluster_job runs on this version and newer ones."""

# The script prints a line for each fact: its name, a tab, its value. On many clusters only login shells have Slurm on
# their PATH. Without -a, sinfo omits partitions that this user may not use.
SCRIPT = r"""
fact() { printf '%s\t%s\n' "$1" "$2"; }
fact home "$HOME"
fact user "$(id -un)"
found=$(command -v sbatch || bash -lc 'command -v sbatch' </dev/null 2>/dev/null | tail -n 1)
[ -z "$found" ] || { fact programs "$(dirname "$found")"; PATH=$(dirname "$found"):$PATH; }
fact version "$(sinfo --version 2>&1 | head -n 1)"
fact python "$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
fact home_type "$(stat -f -c %T "$HOME" 2>/dev/null)"
fact accounting "$(sacct -n -X -j 1 2>&1 >/dev/null | head -n 1)"
fact pyxis "$(srun --help 2>&1 | grep -c -e --container-image)"
sinfo --noheader --exact --format='%P|%D|%c|%m|%G' 2>&1 | while read -r line; do fact partition "$line"; done
"""


class Kind(NamedTuple):
    """Nodes of a partition with the same hardware."""

    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    gpu_model: str
    """The type in the GRES, in lower case; empty if the GRES has no type."""


@dataclass(frozen=True)
class Partition:
    name: str
    kinds: tuple[Kind, ...]

    @property
    def nodes(self) -> int:
        return sum(each.nodes for each in self.kinds)

    @property
    def largest(self) -> Kind:
        """The kind with the most GPUs per node; among several, the one with the most nodes."""
        return max(self.kinds, key=lambda kind: (kind.gpus, kind.nodes))


@dataclass(frozen=True)
class Facts:
    home: str
    user: str
    programs: str
    """The folder of sbatch."""
    version: str
    python: str
    home_type: str
    """The type of the home directory's file system, as stat names it."""
    accounting: bool
    pyxis: bool
    partitions: tuple[Partition, ...] = field(default=())
    """Slurm's default partition comes first."""


def ask(remote: Remote) -> Facts:
    """Raises UsageError if our jobs cannot run there, or RemoteError."""
    output = remote.run(["sh", "-c", SCRIPT], timeout_s=120).check("cannot inspect the cluster").stdout
    return checked(parse(output))


def parse(text: str) -> Facts:
    pairs = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
    values = {name: value.strip() for name, value in pairs if name != "partition"}
    number = re.search(r"\d+\.\d+[\w.-]*", values.get("version", ""))  # Debian's sinfo prints slurm-wlm 22.05.8
    return Facts(
        home=values.get("home", ""),
        user=values.get("user", ""),
        programs=values.get("programs", ""),
        version=number[0] if number else "",
        python=values.get("python", ""),
        home_type=values.get("home_type", ""),
        accounting=bool(values.get("programs")) and not values.get("accounting"),
        pyxis=values.get("pyxis", "0") not in ("", "0"),
        partitions=partitions(value for name, value in pairs if name == "partition"),
    )


def partitions(lines: Iterator[str]) -> tuple[Partition, ...]:
    """Parses sinfo's lines `NAME|nodes|CPUs|MiB|GRES`, one for each kind of node. The default partition has a star."""
    found: dict[str, list[Kind]] = {}
    default = ""
    for line in lines:
        name, *rest = line.split("|", 4)
        if len(rest) != 4:
            continue
        nodes, cpus, memory, gres = rest
        default = name.rstrip("*") if name.endswith("*") else default
        found.setdefault(name.rstrip("*"), []).append(
            Kind(int(nodes), _number(cpus), _number(memory), *_gpus(gres)),
        )
    names = sorted(found, key=lambda name: name != default)
    return tuple(Partition(name, tuple(found[name])) for name in names)


def _number(text: str) -> int:
    """sinfo prints `515303+` if nodes differ."""
    return int(re.match(r"\d*", text)[0] or 0)  # type: ignore[index]


def _gpus(gres: str) -> tuple[int, str]:
    """The number of GPUs and their model, from a GRES such as `gpu:8`, `gpu:h100:8(S:0-1)`,
    `gpu:a100:4(S:0),gpu:v100:2,nvme:1` or `(null)`. The model is empty if there are several. Slices of GPUs (MIG), such
    as `gpu:1g.10gb:28`, count only on nodes without whole GPUs: a job that asks for all GPUs means these."""
    bare = re.sub(r"\([^()]*\)", "", gres)
    items = [each.split(":") for each in bare.split(",") if each.split(":")[0] == "gpu"]
    whole = [each for each in items if not (len(each) > 2 and re.search(_SLICE, each[1]))]
    items = whole or items
    count = sum(_number(each[-1]) if len(each) > 1 else 1 for each in items)
    models = {each[1].lower() for each in items if len(each) > 2}
    return count, models.pop() if len(models) == 1 else ""


_SLICE = r"(^|_)\d+g\.\d+gb"
"""In the name of a MIG profile: 1g.10gb, and a100_3g.20gb with Slurm's AutoDetect=nvml (man gres.conf)."""


def checked(facts: Facts) -> Facts:
    """Raises UsageError."""
    if not facts.programs or not facts.version:
        raise UsageError(
            "there is no sbatch on the login node", "check whether Slurm's commands work there: ssh HOST bash -lc sinfo"
        )
    if not facts.partitions:
        raise UsageError("sinfo lists no partition that you may use", "ask the cluster's administrators")
    have = tuple(int(part) for part in facts.python.split(".") if part.isdigit())
    if have < PYTHON_AT_LEAST:
        got = f"Python {facts.python}" if facts.python else "none"
        raise UsageError(
            f"jobs need Python 3.8 or newer as /usr/bin/python3, but the login node has {got}",
            "ask the cluster's administrators",
        )
    return facts
