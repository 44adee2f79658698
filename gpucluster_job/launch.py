"""Fills in the `{NAMES}` of the launch line of job.sbatch, which only the job's first node knows."""

from __future__ import annotations

import os
import re
from typing import Callable, Sequence

from gpucluster_job import containers
from gpucluster_job.network import interface_of

COMMAND, CONTAINER = "{COMMAND}", "{CONTAINER}"
_NAME = re.compile(r"\{([A-Z_]+)\}")


def facts() -> dict[str, Callable[[], str]]:
    """Values that are computed only if a line uses them. Other names are environment variables."""
    environ = os.environ
    nodes, ranks = environ["GPUCLUSTER_NODES"].split(), int(environ["RANKS_PER_NODE"])
    return {
        "HOSTS": lambda: ",".join(f"{node}:{ranks}" for node in nodes),
        "FIRST_NODE": lambda: nodes[0],
        "RANKS": lambda: str(len(nodes) * ranks),
        # on a single node horovodrun accepts only the interface of 127.0.0.1
        "INTERFACE": lambda: interface_of(environ["MASTER_ADDR"]) if len(nodes) > 1 else "lo",
        "CPUS_PER_RANK": lambda: (
            environ.get("SLURM_CPUS_PER_TASK") or str(max(1, int(environ["SLURM_CPUS_ON_NODE"]) // ranks))
        ),
    }


def fill_in(line: Sequence[str]) -> list[str]:
    known = facts()
    words: list[str] = []
    for word in line:
        if word == CONTAINER:
            words += containers.options()
        elif word == COMMAND:
            words.append(word)
        else:
            words.append(_NAME.sub(lambda match: _value(known, match[1]), word))
    return words


def _value(known: dict[str, Callable[[], str]], name: str) -> str:
    return known[name]() if name in known else os.environ[name]


def argv(line: Sequence[str], command: Sequence[str]) -> list[str]:
    """Appends the command of the ranks. A line with {COMMAND} places the command itself, because it starts a program of
    ours."""
    return [*fill_in(line), *(["--"] if COMMAND in line else []), *command]
