"""torch's flight recorder: each rank's last collectives, which NCCL's process groups write to a file at a timeout, and
any program with `torch._C._distributed_c10d._dump_fr_trace()`, with gloo too.

torch 2.7 to 2.14 record 2000 collectives unless told otherwise, and write to TORCH_FR_DUMP_TEMP_FILE + rank
(FlightRecorder.hpp and .cpp). The older names TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE make
these print a warning in every rank, so torch 2.5 and 2.6 record nothing unless the job sets them.
"""

from __future__ import annotations

import os
import pickle
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Mapping

from gpucluster_job.hangs.missing import Missing, by_counts, most

PREFIX = "rank-"
LARGEST = 64 * 2**20
LIMIT_S = 10.0
"""The job ends meanwhile, and its nodes wait. NCCL's watchdog says the same of a job of many ranks."""
_SHOWN = re.compile(r"^(?:\w+:)?(\w+)$")


def variables(folder: str) -> dict[str, str]:
    """Where ranks write, unless the job says so itself."""
    names = {"TORCH_FR_DUMP_TEMP_FILE": f"{folder}/{PREFIX}", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    asked = "TORCH_FR_DUMP_TEMP_FILE" in os.environ or "TORCH_NCCL_DEBUG_INFO_TEMP_FILE" in os.environ
    return {} if asked else {name: value for name, value in names.items() if name not in os.environ}


def missing(folder: str) -> Missing | None:
    """None if no rank has written, if all are as far as the others, or if there is no time to read all: a rank's file
    has some 6 MB, mostly stacks, which take 0.3 s. A later call continues."""
    until = time.monotonic() + LIMIT_S
    counts: dict[str, dict[str, int]] = {}
    names: dict[str, dict[int, str]] = {}
    for path in sorted(Path(folder).glob(f"{PREFIX}*")):
        if time.monotonic() > until:
            return None
        label = path.name[len(PREFIX) :]
        for group, number, name in _reached(path) if label.isdigit() else ():
            most(counts, group, label, number)
            names.setdefault(group, {})[number] = name
    last = {group: names[group].get(max(ranks.values()), "") for group, ranks in counts.items()}
    return by_counts(counts, last)


def _reached(path: Path) -> tuple[tuple[str, int, str], ...]:
    """For each group its name, the number of the last collective that the rank has begun, and its function."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return _last(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=4096)
def _last(path: Path, size: int, changed_ns: int) -> tuple[tuple[str, int, str], ...]:
    found: dict[str, tuple[int, str]] = {}
    for entry in read(path):
        group, number = entry.get("process_group"), entry.get("collective_seq_id")
        if not entry.get("is_p2p") and isinstance(number, int) and isinstance(group, (tuple, list)) and group:
            name = _SHOWN.match(str(entry.get("profiling_name", "")))
            if number >= found.get(str(group[0]), (number, ""))[0]:
                found[str(group[0])] = (number, name[1] if name else "")
    return tuple((group, number, name) for group, (number, name) in found.items())


class _OnlyData(pickle.Unpickler):
    """A job's program wrote the file: nothing in it may name code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no data")


def read(path: Path) -> list[Mapping[str, Any]]:
    """The entries; none if the file is no dump, or half of one."""
    try:
        if path.stat().st_size > LARGEST:
            return []
        with path.open("rb") as file:
            found = _OnlyData(file).load()
        return [each for each in found["entries"] if isinstance(each, dict)]
    except Exception:  # noqa: BLE001 - whatever pickle makes of bytes that are none
        return []
