"""What this node should have: a file that the boot step `health` writes from the bundle's data of its instance type."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATH = Path("/var/lib/gpucluster/health.json")
MOUNTS = Path("/var/lib/gpucluster/storage.mounts")
"""The prolog 10-storage writes this list of mounts. It may grow while the node runs."""


@dataclass(frozen=True)
class Facts:
    gpus: int = 0
    efa_interfaces: int = 0
    nvlink: bool = False
    """Whether NVSwitches connect the GPUs: then every NVLink is in use."""
    mounts: tuple[str, ...] = ()


def load(path: Path = PATH, mounts: Path = MOUNTS) -> Facts:
    found = json.loads(path.read_text())
    with suppress(FileNotFoundError):
        found["mounts"] = (*found["mounts"], *mounts.read_text().split())
    return Facts(**{**found, "mounts": tuple(found["mounts"])})
