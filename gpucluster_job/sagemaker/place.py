"""What this host's entry point, its ranks and the programs between them share: a folder of the container, and this
package's own verbs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Mapping

import gpucluster_job

PACKAGE = os.path.dirname(os.path.abspath(gpucluster_job.__file__))
ENVIRONMENT = "environment.json"
FAILURES = "failures"


def words(verb: str, *more: str) -> list[str]:
    return [sys.executable, "-IS", PACKAGE, verb, *more]


def folder(job: str, host: str) -> Path:
    """The same path on every host of the job: horovodrun gives each rank the environment of the first host."""
    return Path(tempfile.gettempdir(), f"gpucluster-{job or 'job'}", host)


def make(job: str, host: str, environment: Mapping[str, str]) -> Path:
    place = folder(job, host)
    (place / FAILURES).mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in (place / FAILURES).iterdir():
        left.unlink()  # of a run before, in a container that has started again
    written = place / ENVIRONMENT
    written.touch(mode=0o600)
    written.write_text(json.dumps(dict(environment)), encoding="utf-8")
    return place


def environment(place: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((place / ENVIRONMENT).read_text(encoding="utf-8"))
    return found
