"""One torchrun agent on each node: `torchrun OPTION... RANK...`, with the options that differ between nodes."""

from __future__ import annotations

import os
import sys
from typing import Iterable

from gpucluster_job import ourselves
from gpucluster_job.exports import assignments
from gpucluster_job.network import NetworkError, address_of

_COMMAND = "--no-python"
"""The ranks' command follows this option."""


def number() -> int:
    """This node's place in the job's order of nodes: the agent of the first one has the store."""
    return os.environ["GPUCLUSTER_NODES"].split().index(os.environ["SLURMD_NODENAME"])


def _without(loader: Iterable[str], words: list[str]) -> list[str]:
    """torchrun gets these variables, as the ranks' programs do, but not our own program between the two."""
    before = words.index(_COMMAND) + 1
    return [*words[:before], *(["env", *(f"--unset={name}" for name in loader)] if loader else []), *words[before:]]


def main(words: list[str]) -> int:
    """Explicit options: otherwise torchrun compares host names to find the host, and reports a name that may resolve to
    localhost."""
    environ = os.environ
    try:
        address = address_of(environ["SLURMD_NODENAME"])
    except NetworkError as error:
        sys.exit(f"error: {error}")
    own = [f"--local-addr={address}", f"--node-rank={number()}", "--rdzv-conf=timeout=300"]
    loader = dict(assignments(f"{ourselves.folder()}/loader.sh"))
    try:
        os.execvpe("torchrun", ["torchrun", *own, *_without(loader, words[1:])], {**environ, **loader})
    except FileNotFoundError:
        print("torchrun: not found", file=sys.stderr)
        return 127
