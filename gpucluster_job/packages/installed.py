"""What is installed in the cluster's environment, and in a job's packages on top of it.

usage: installed pin BASE NAMES FIXED          writes two files for pip
       installed compare BASE PLACE NAME       refuses what may not be on top of BASE, the environment NAME
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

FRAMEWORKS = ("torch", "tensorflow", "mxnet", "horovod")
"""Modules that several packages provide."""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    compiled: bool
    """Whether it has machine code against which other packages were compiled: torch, NumPy, NCCL."""


def installed(environment: Path) -> dict[str, Package]:
    from importlib.metadata import distributions

    found = {}
    for each in distributions(path=[str(path) for path in environment.glob("lib/python3.*/site-packages")]):
        name = re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower()
        tags = re.findall(r"^Tag: *(\S+)", each.read_text("WHEEL") or "", re.MULTILINE)
        found[name] = Package(name, each.version, not all(tag.endswith("-any") for tag in tags))
    return found


def pin(base: Path, names: Path, fixed: Path) -> int:
    """NAMES gets all packages, FIXED the versions of compiled ones."""
    below = [*installed(base).values()]
    names.write_text("".join(f"{each.name}\n" for each in below if each.name != "pip"))
    fixed.write_text("".join(f"{each.name}=={each.version}\n" for each in below if each.compiled) + _undeclared(below))
    return 0


def _undeclared(below: list[Package]) -> str:
    """torchaudio says nowhere which torch it was compiled for: before torch 2.11 the one with its own version, from
    then on any later one (pytorch/audio#4212)."""
    torch = next((each.version.partition("+")[0] for each in below if each.name == "torch"), "")
    early = bool(torch) and tuple(int(each) for each in torch.split(".")[:2]) < (2, 11)
    return f"torchaudio=={torch}\n" if early else ""


def compare(base: Path, place: Path, environment: str) -> int:
    """Refuses replacements by `setup`. A package without machine code may shadow the environment's, and is reported."""
    below = installed(base)
    for name, ours in sorted(installed(place).items()):
        theirs = below.get(name)
        if theirs is None or theirs.version == ours.version:
            continue
        if theirs.compiled:
            has = f"the environment {environment} has {name} {theirs.version}"
            return _refuse(f"setup installed {name} {ours.version} and {has}, which must stay")
        print(f"{name} {ours.version} is used instead of the environment's {theirs.version}", flush=True)
    for module in FRAMEWORKS:  # such as tensorflow where the environment has tensorflow-cpu
        if all(list(each.glob(f"lib/python3.*/site-packages/{module}")) for each in (place, base)):
            has = f"the environment {environment} has one, which must stay"
            return _refuse(f"a second {module} was installed, and {has}")
    return 0


def _refuse(reason: str) -> int:
    print(f"ERROR: {reason}")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "pin":
        sys.exit(pin(*map(Path, sys.argv[2:5])))
    sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
