"""CPU time of whole processes, and the medians of interleaved runs.

User + system time, not wall-clock time: that is the same whether the machine has something else to do or not, or
nearly so. Runs of the things that are compared alternate, so that a change of load meets them all.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence

Measurement = Callable[[], float]


def cpu_ms(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """User + system milliseconds of one process and of the children that it waited for. Its output goes nowhere."""
    silence = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    # Compiled modules are kept, as on a user's machine after the first run.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables = {**inherited, **(environment or {})}
    process = os.posix_spawnp(argv[0], list(argv), variables, file_actions=silence)
    _, status, usage = os.wait4(process, 0)
    exit_code = os.waitstatus_to_exitcode(status)
    if exit_code != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit code {exit_code}; run it by hand to see why")
    return 1000 * (usage.ru_utime + usage.ru_stime)


def medians(measurements: Mapping[str, Measurement], runs: int, *, warm: bool = True) -> dict[str, float]:
    """One run of each warms caches and is not counted, unless they do so themselves."""
    for measure in measurements.values() if warm else ():
        measure()
    seen: dict[str, list[float]] = {name: [] for name in measurements}
    for _ in range(runs):
        for name, measure in measurements.items():
            seen[name].append(measure())
    return {name: statistics.median(values) for name, values in seen.items()}
