"""The files of ours that every job's folder has: what runs the job, and what its ranks import."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpucluster import shipped

PACKAGES = tuple(map(shipped.package, ("gpucluster_job", "gpucluster_train")))
"""Shipped with every job: the package that runs it, and the package on the PYTHONPATH of its ranks."""
ENTRY_POINT = {
    "METADATA": "Metadata-Version: 2.1\nName: gpucluster_last_frees\nVersion: 0\n",
    "entry_points.txt": "[torch.backends]\ngpucluster = gpucluster_last_frees:wait_at_exit\n",
}
"""Makes the ranks' torch call gpucluster_train/last_frees.py: as a module of its own, because a gpucluster_train in the
program's folder comes first, and torch cannot be imported if it cannot load an entry point."""


@cache
def files() -> Mapping[str, str]:
    """Path in the job's folder -> text."""
    found = ((package, path) for package in PACKAGES for path in sorted(package.rglob("*.py")))
    texts = {f"lib/{path.relative_to(package.parent)}": path.read_text(encoding="utf-8") for package, path in found}
    texts["lib/gpucluster_last_frees.py"] = texts["lib/gpucluster_train/last_frees.py"]
    return {**texts, **{f"lib/gpucluster_last_frees-0.dist-info/{name}": text for name, text in ENTRY_POINT.items()}}
