"""One torchrun agent on each node: `torchrun OPTION... RANK...`, with the two options that differ between nodes."""

from __future__ import annotations

import os
import sys
from typing import Iterable

from gpucluster_job import ourselves, placement
from gpucluster_job.exports import assignments
from gpucluster_job.network import NetworkError, address_of

_COMMAND = "--no-python"
"""The ranks' command follows this option."""


def numbered(words: list[str]) -> list[str]:
    """c10d numbers the nodes by their addresses, as text. In an order of ours they are numbered one by one: torchrun's
    static rendezvous, which takes no other options of c10d."""
    if placement.IN_ORDER not in os.environ:
        return words
    number = os.environ["GPUCLUSTER_NODES"].split().index(os.environ["SLURMD_NODENAME"])
    static = [f"--node-rank={number}", "--rdzv-backend=static", "--rdzv-conf=timeout=300"]
    return [*static, *(word for word in words if word != "--rdzv-backend=c10d")]


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
    is_host = "true" if environ["SLURM_NODEID"] == "0" else "false"
    own = [f"--local-addr={address}", f"--rdzv-conf=is_host={is_host},join_timeout=300"]
    loader = dict(assignments(f"{ourselves.folder()}/loader.sh"))
    try:
        os.execvpe("torchrun", ["torchrun", *own, *_without(loader, numbered(words[1:]))], {**environ, **loader})
    except FileNotFoundError:
        print("torchrun: not found", file=sys.stderr)
        return 127
