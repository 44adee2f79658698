"""Verifies the environment that runs this: its lock's versions, and that every package can be imported.

usage: ENVIRONMENT/bin/python verify.py LOCK
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SHOWN = (
    "torch",
    "tensorflow",
    "tensorflow-cpu",
    "mxnet",
    "mxnet-cu112",
    "horovod",
    "smdistributed-dataparallel",
    "numpy",
)

LATER = {"torch": "torch._dynamo"}
"""Modules that a package imports only when a rank trains. Ranks cannot write here: they would compile these files, 800
for torch, at each start, which takes 3 s. Root imports them now and so compiles them once."""


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE))


def imports(lock: str) -> list[str]:
    named = [name for line in re.findall(r"^# imports: (.*)$", lock, re.MULTILINE) for name in line.split()]
    return [*named, *(LATER[package] for package in pins(lock) if package in LATER)]


def wrong_versions(wanted: dict[str, str]) -> Iterator[str]:
    for name, pinned in wanted.items():
        try:
            got = version(name)
        except PackageNotFoundError:
            yield f"{name}: missing, expected {pinned}"
            continue
        # 2.13.0+cpu is a build of 2.13.0
        if got.partition("+")[0] != pinned.partition("+")[0]:
            yield f"{name}: got {got}, expected {pinned}"


def failed_imports(names: list[str]) -> Iterator[str]:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            yield f"import {name}: {type(error).__name__}: {error}"


def horovod_parts(names: list[str]) -> dict[str, bool]:
    """The parts that this Horovod was built with. Empty without Horovod."""
    module = next((sys.modules[name] for name in names if name in ("horovod.torch", "horovod.tensorflow.keras")), None)
    return {part: bool(getattr(module, f"{part}_built")()) for part in ("gloo", "mpi", "nccl")} if module else {}


def missing_parts(parts: dict[str, bool]) -> Iterator[str]:
    """Without MPI each rank that mpirun starts would train alone. NCCL is for GPUs."""
    for part in ("gloo", "mpi"):
        if not parts.get(part, True):
            yield f"horovod: built without {part}"


def told(parts: dict[str, bool]) -> str:
    return "horovod: " + ", ".join(part if built else f"no {part}" for part, built in parts.items()) if parts else ""


def main(path: str) -> int:
    lock = Path(path).read_text(encoding="utf-8")
    wanted, names = pins(lock), imports(lock)
    problems = [*wrong_versions(wanted), *failed_imports(names)]
    parts = horovod_parts(names) if not problems else {}
    problems += missing_parts(parts)
    if problems:
        print("error: " + "; ".join(problems), file=sys.stderr)
        return 1
    print(" ".join(f"{name}=={version(name)}" for name in SHOWN if name in wanted), told(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
