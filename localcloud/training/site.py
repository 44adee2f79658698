"""What all training jobs of a cloud share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcloud.runtime import Runtime
from localcloud.training.credentials import Grants


@dataclass(frozen=True)
class Site:
    runtime: Runtime
    grants: Grants
    folder: Callable[[], Path]
    """Where the jobs' files lie while they run."""
