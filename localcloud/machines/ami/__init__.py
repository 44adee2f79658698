"""What AWS's machine images have and lack, from recorded sources, and whether the local cloud's images match.

A source "on GitHub" without a name is a public repository whose name was not recorded.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DLAMI = HERE / "dlami-ubuntu-24.04.toml"
UBUNTU = HERE / "ubuntu-24.04.toml"
MANIFESTS = (DLAMI, UBUNTU)
FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin")
WHERE_IT_SAYS = {"/usr/local/cuda": "/usr/local/cuda/bin/nvcc", "/opt/amazon/efa/bin/fi_info": "/usr/bin/fi_info"}
"""Links out of the image, and folders: which file contains the version."""

Line = dict[str, Any]


def read(manifest: Path) -> tuple[list[Line], list[Line]]:
    """What the AMI has, and what it lacks."""
    found = tomllib.loads(manifest.read_text())
    return found["has"], found["lacks"]


def lacking(manifest: Path) -> set[str]:
    """Commands."""
    return {command for line in read(manifest)[1] for command in line["commands"]}


def baked(manifest: Path) -> set[str]:
    """Commands that the AMI lacks and that `gpucluster image build` installs."""
    return {command for line in read(manifest)[1] if line.get("baked") for command in line["commands"]}


def differences(root: Path, manifest: Path, *, baked: bool) -> list[str]:
    """Differences of the image `root` from the AMI that the manifest does not name. `baked`: after `image build`."""
    has, lacks = read(manifest)
    return [*_missing(root, has), *_too_much(root, lacks, baked=baked)]


def _missing(root: Path, has: list[Line]) -> Iterator[str]:
    for line in has:
        path: str = line.get("path", "")
        if not path or line.get("here", "").startswith("none"):
            continue
        said = root / WHERE_IT_SAYS.get(path, path).lstrip("/")
        if not said.exists():
            yield f"{path} is missing"
        elif "version" in line and "here" not in line and line["version"] not in said.read_text(errors="replace"):
            yield f"{path} does not contain {line['version']}"


def _too_much(root: Path, lacks: list[Line], *, baked: bool) -> Iterator[str]:
    for line in lacks:
        for command in line["commands"]:
            there = any(os.path.lexists(root / folder / command) for folder in FOLDERS)
            if there and not (baked and line.get("baked")):
                yield f"{command} is there, and the AMI has none"
            if baked and line.get("baked") and not there:
                yield f"{command} is missing, which `image build` installs"
