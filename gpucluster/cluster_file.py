"""Finds the cluster file if the user named none."""

from __future__ import annotations

from pathlib import Path

NAME = "cluster.yaml"


def nearest(folder: Path) -> Path:
    """cluster.yaml in this folder or in the nearest parent folder, as git finds its repository."""
    above = next((parent / NAME for parent in folder.resolve().parents if (parent / NAME).is_file()), None)
    return Path(NAME) if above is None or (folder / NAME).exists() else above
