"""The values of the job's secrets: the submission writes the file, and the job removes it when it ends."""

from __future__ import annotations

import json
from contextlib import suppress

from gpucluster_job.settings import GaveUp, Settings

MASKED = "***"
"""In env.json, the value of a variable that is a secret."""


def remove(settings: Settings) -> None:
    (settings.folder / "secrets.sh").unlink(missing_ok=True)


def check(settings: Settings) -> None:
    """Slurm may run a job again that has failed and removed the file: somebody requeues it, or its node finds only then
    that its GPU was broken. Raises GaveUp."""
    if not settings.runs_before or (settings.folder / "secrets.sh").exists():
        return
    variables: dict[str, str] = {}
    with suppress(OSError, ValueError):
        variables = json.loads((settings.root / "env.json").read_text(encoding="utf-8"))
    if names := [name for name, value in variables.items() if value == MASKED]:
        raise GaveUp(f"the values of {', '.join(names)} were removed when an earlier run failed: submit the job again")
