"""`output`: a second place for the job's log, with sbatch's filename patterns. gpucluster_job/log_place.py writes it.

Patterns: man sbatch.1 of Slurm 22.05 to 23.11, "filename pattern". Those of steps and tasks (%J, %n, %s, %t) would be
the same for all jobs, because the log is that of the batch script.
"""

from __future__ import annotations

import re
from typing import Any

from gpucluster.config.value_checks import refuse

SYMBOLS = {
    "j": "the job's id",
    "x": "its name",
    "A": "the array's id",
    "a": "the element's index",
    "u": "your user name",
    "N": "the job's first node",
    "%": "a percent sign",
}
_NO_FILE = ("", ".", "..")
_FORM = "the path of a file such as /fsx/logs/%x-%j.out, or logs/%x-%j.out below your home directory on the cluster"


def pattern(value: Any) -> Any:
    """Refuses a path that names no file, and patterns that have no value here. `~/a` becomes `a`, which is the same."""
    if isinstance(value, (list, tuple, dict)):
        got = "a section" if isinstance(value, dict) else "a list"
        raise refuse(f"must be one path, got {got}", "the folders that other tasks read are outputs")
    if not isinstance(value, str):
        return value
    first, last = value.partition("/")[0], value.rpartition("/")[2]
    others_home = first.startswith("~") and value[:2] != "~/"
    # sbatch replaces no pattern in a path with a backslash
    if last in _NO_FILE or others_home or not value.isprintable() or "\\" in value:
        raise refuse(f"must be {_FORM}, got {value!r}")
    for width, symbol in _patterns(value):
        if symbol not in SYMBOLS or (width and symbol == "%"):
            allowed = ", ".join(f"%{letter} {meaning}" for letter, meaning in SYMBOLS.items())
            unknown = f"has the unknown pattern %{width}{symbol}, got {value!r}"
            raise refuse(unknown, f"allowed: {allowed}; %4j is at least 4 digits")
    return value[2:].lstrip("/") if first == "~" else value


def _patterns(path: str) -> list[tuple[str, str]]:
    """The number and the letter of each."""
    return re.findall(r"%(\d*)(.?)", path)


def symbols(path: str) -> set[str]:
    return {symbol for _, symbol in _patterns(path)}
