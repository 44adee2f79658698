"""Which cloud a state directory belongs to, and the names of everything of that cloud."""

from __future__ import annotations

import json
from pathlib import Path

RECORD = "hypervisor.json"


def cgroup(cloud_id: str) -> str:
    """Relative to each hierarchy's root; the machines' and the network's groups are in it."""
    return f"lc-{cloud_id}"


def claim(state_dir: Path, cloud_id: str) -> None:
    """Written before anything is created, so that a clean-up after a dead cloud finds everything by this id."""
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / RECORD).write_text(json.dumps({"cloud_id": cloud_id}))


def owner(state_dir: Path) -> str | None:
    try:
        cloud_id = json.loads((state_dir / RECORD).read_text())["cloud_id"]
    except (OSError, ValueError, KeyError):
        return None
    return str(cloud_id)


def release(state_dir: Path) -> None:
    (state_dir / RECORD).unlink(missing_ok=True)
