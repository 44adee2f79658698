"""Launches that EC2 refused, passed from the launching to the counting program: a file, one JSON value a line."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpucluster_node import locks

PATH = Path("/var/lib/gpucluster/launch-refusals.jsonl")
log = logging.getLogger("refusals")


def record(partition: str, code: str, path: Path = PATH) -> None:
    """An error in counting must not prevent a node from being set down."""
    try:
        with locks.held(path) as file:
            file.write(json.dumps([partition, code]) + "\n")
    except OSError as error:
        log.warning("could not count a refused launch: %s", error)


def take(path: Path = PATH) -> Counter[tuple[str, str]]:
    """(partition, EC2's code) -> how many since the last call. Empties the file."""
    with locks.held(path) as file:
        file.seek(0)
        lines = file.readlines()
        file.truncate(0)
    return Counter(refusal for line in lines for refusal in _parse(line))


def _parse(line: str) -> Iterator[tuple[str, str]]:
    """A line that a full disk truncated is lost."""
    with suppress(ValueError):
        partition, code = json.loads(line)
        yield partition, code
