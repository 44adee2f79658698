"""One torchrun agent on each node: `torchrun OPTION... RANK...`, with the two options that differ between nodes."""

from __future__ import annotations

import os
import sys

from gpucluster_job.network import NetworkError, address_of


def main(words: list[str]) -> int:
    """Explicit options: otherwise torchrun compares host names to find the host, and reports a name that may resolve to
    localhost."""
    is_host = "true" if os.environ["SLURM_NODEID"] == "0" else "false"
    try:
        address = address_of(os.environ["SLURMD_NODENAME"])
    except NetworkError as error:
        sys.exit(f"error: {error}")
    own = [f"--local-addr={address}", f"--rdzv-conf=is_host={is_host},join_timeout=300"]
    try:
        os.execvp("torchrun", ["torchrun", *own, *words[1:]])
    except FileNotFoundError:
        print("torchrun: not found", file=sys.stderr)
        return 127
