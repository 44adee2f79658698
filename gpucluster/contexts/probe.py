"""What `context add` asks a login node, and what it makes of the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucluster.errors import UsageError
from gpucluster.head.remote import Remote

PYTHON_AT_LEAST = (3, 8)
"""What gpucluster_job is written for."""

# A line for each fact: its name, a tab, its value. On many clusters only login shells have Slurm on their PATH.
# sinfo: -a is not given, so that partitions that this user may not use stay away.
SCRIPT = r"""
fact() { printf '%s\t%s\n' "$1" "$2"; }
fact home "$HOME"
fact user "$(id -un)"
found=$(command -v sbatch || bash -lc 'command -v sbatch' </dev/null 2>/dev/null | tail -n 1)
[ -z "$found" ] || { fact programs "$(dirname "$found")"; PATH=$(dirname "$found"):$PATH; }
unset SINFO_PARTITION
fact version "$(sinfo --version 2>&1 | head -n 1)"
fact python "$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
fact home_type "$(stat -f -c %T "$HOME" 2>/dev/null)"
fact accounting "$(sacct -n -X -j 1 2>&1 >/dev/null | head -n 1)"
fact pyxis "$(srun --help 2>&1 | grep -c -e --container-image)"
sinfo --noheader --exact --format='%P|%D|%c|%m|%G' 2>&1 | while read -r line; do fact partition "$line"; done
"""


class Kind(NamedTuple):
    """Nodes of a partition that are alike."""

    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    gpu_model: str
    """As the GRES names it, in lower case; empty where it does not."""


@dataclass(frozen=True)
class Partition:
    name: str
    kinds: tuple[Kind, ...]

    @property
    def nodes(self) -> int:
        return sum(each.nodes for each in self.kinds)

    @property
    def largest(self) -> Kind:
        """The nodes with the most GPUs; of those, the most nodes."""
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
    """Of its file system, as stat names it."""
    accounting: bool
    pyxis: bool
    partitions: tuple[Partition, ...] = field(default=())
    """Slurm's default partition is the first."""


def ask(remote: Remote) -> Facts:
    """Raises UsageError where jobs of ours cannot run there, or RemoteError."""
    said = remote.run(["sh", "-c", SCRIPT], timeout_s=120).check("cannot look at the cluster").stdout
    return checked(parse(said))


def parse(text: str) -> Facts:
    pairs = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
    told = {name: value.strip() for name, value in pairs if name != "partition"}
    number = re.search(r"\d+\.\d+[\w.-]*", told.get("version", ""))  # Debian's says slurm-wlm 22.05.8
    return Facts(
        home=told.get("home", ""),
        user=told.get("user", ""),
        programs=told.get("programs", ""),
        version=number[0] if number else "",
        python=told.get("python", ""),
        home_type=told.get("home_type", ""),
        accounting=bool(told.get("programs")) and not told.get("accounting"),
        pyxis=told.get("pyxis", "0") not in ("", "0"),
        partitions=partitions(value for name, value in pairs if name == "partition"),
    )


def partitions(lines: Iterator[str]) -> tuple[Partition, ...]:
    """Of sinfo's lines `NAME|nodes|CPUs|MiB|GRES`, one for each kind of node; the default partition has a star."""
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
    """`515303+` where nodes differ."""
    return int(re.match(r"\d*", text)[0] or 0)  # type: ignore[index]


def _gpus(gres: str) -> tuple[int, str]:
    """Of `gpu:8`, `gpu:h100:8(S:0-1)`, `gpu:a100:4(S:0),gpu:v100:2,nvme:1` or `(null)`: how many, and their model."""
    bare = re.sub(r"\([^()]*\)", "", gres)
    items = [each.split(":") for each in bare.split(",") if each.split(":")[0] == "gpu"]
    count = sum(_number(each[-1]) if len(each) > 1 else 1 for each in items)
    models = {each[1].lower() for each in items if len(each) > 2}
    return count, models.pop() if len(models) == 1 else ""


def checked(facts: Facts) -> Facts:
    """Raises UsageError."""
    if not facts.programs or not facts.version:
        raise UsageError(
            "there is no sbatch on the login node", "which Slurm command works there: ssh HOST bash -lc sinfo"
        )
    if not facts.partitions:
        raise UsageError("sinfo lists no partition that you may use", "ask the cluster's administrators")
    have = tuple(int(part) for part in facts.python.split(".") if part.isdigit())
    if have < PYTHON_AT_LEAST:
        got = f"Python {facts.python}" if facts.python else "none"
        raise UsageError(
            f"jobs need Python 3.8 or newer as /usr/bin/python3, and the login node has {got}",
            "ask the cluster's administrators",
        )
    return facts
