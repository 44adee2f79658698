"""Waits for the job's own packages before its ranks start. The head node installs them while nodes boot: overlay.py."""

from __future__ import annotations

import os
import time

from gpucluster_job import ourselves
from gpucluster_job.log import Said, reason, say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings


def prepare(runner: Runner, settings: Settings) -> None:
    """Waits for them, or installs them if nobody has. Ranks find them on PATH. Raises GaveUp, or Stopped."""
    own = os.environ.get("GPUCLUSTER_PYTHON")
    if own and not os.access(os.path.join(own, "bin", "python"), os.X_OK):
        raise GaveUp(f"there is no program {own}/bin/python on {os.environ['GPUCLUSTER_NODES'].split()[0]}")
    if not (settings.root / "packages").exists():
        return
    from gpucluster_job.packages.overlay import Overlay

    began = time.monotonic()
    said = Said(lambda line: say(f"[packages] {line}"))
    if runner.phase(ourselves.words("overlay", "build", str(settings.root)), said) != 0:
        last = reason(said.lines[-1]) if said.lines else "it printed nothing"
        raise GaveUp(f"the job's own packages could not be installed: {last}")
    overlay = Overlay.of(str(settings.root))
    os.environ["PATH"] = overlay.path(os.environ["PATH"])
    say(f"[packages] {overlay.place} ({time.monotonic() - began:.0f} s)")
