"""What all training jobs of a cloud share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcloud.filesystems.contents import Contents
from localcloud.runtime import Runtime
from localcloud.training.credentials import Grants


@dataclass(frozen=True)
class Site:
    runtime: Runtime
    grants: Grants
    contents: Contents | None
    """The file systems of FSx and EFS; None if no machine boots."""
    folder: Callable[[], Path]
    """Where the jobs' files lie while they run."""
