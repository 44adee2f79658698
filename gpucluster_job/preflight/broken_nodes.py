"""A node that the preflight has proved broken: Slurm's epilog drains it, and the job runs again on others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Mapping

from gpucluster_job.log import say
from gpucluster_job.preflight.judge import TESTED
from gpucluster_job.settings import Settings
from gpucluster_job.task import limit

EPILOG = Path("/opt/gpucluster/epilog.d/84-preflight")
MOST_REQUEUES = 3
"""For this. A program that breaks the checks on healthy nodes must not go on for ever."""
LONGEST = 250
"""In characters. The epilog reads at most 1 KiB (bootstrap/gpucluster_node/health/drain_broken.py)."""


def tell(settings: Settings, broken: Mapping[str, str]) -> bool:
    """broken: node -> why. Whether the epilogs of these nodes, which run as root, find it."""
    nodes = " and ".join(broken)
    if not EPILOG.exists():
        say(f"[preflight] {nodes} booted before an update, so no epilog drains {'it' if len(broken) == 1 else 'them'}:")
        for node in broken:
            say(f"[preflight] {TESTED.format(node)}")
        return False
    try:
        for node, why in broken.items():
            _place(settings, node).write_text(f"{why[:LONGEST]}\n", encoding="utf-8")
    except OSError as error:  # such as a full /home
        say(f"[preflight] warning: {nodes} cannot be drained: {error.strerror}")
        return False
    say(f"[preflight] when this job has left {nodes}, Slurm drains and replaces {'it' if len(broken) == 1 else 'them'}")
    return True


def _place(settings: Settings, node: str) -> Path:
    """bootstrap/programs/epilog.d/84-preflight looks there, and knows neither an array's element nor the run."""
    return settings.root / "preflight" / f"broken-{settings.job_id}-{node}"


def forget(settings: Settings) -> None:
    """What the last run found, if an epilog did not: by now the node may have another instance."""
    for path in (settings.root / "preflight").glob(f"broken-{settings.job_id}-*"):
        with suppress(OSError):
            path.unlink()


def run_elsewhere(settings: Settings) -> bool:
    """Whether Slurm runs the job again. SLURM_RESTART_COUNT would also count lost nodes and runs after a time limit."""
    try:
        number = _counted(settings.folder / "preflight" / f"requeues-{settings.job_id}")
    except OSError as error:
        say(f"[launcher] the job's requeues cannot be counted ({error.strerror}): no further run follows")
        return False
    if number > MOST_REQUEUES:
        say(f"[launcher] {number} runs of this job have found broken nodes: no further run follows")
    elif limit.requeue(settings.shown_id):
        of = f"{number} of at most {MOST_REQUEUES} times"
        say(f"[launcher] the job is requeued and runs on other nodes, for this reason {of}")
        return True
    return False


def _counted(marks: Path) -> int:
    """How many runs have called it."""
    with marks.open("a", encoding="utf-8") as file:
        file.write(".")
    return marks.stat().st_size
