"""Lustre's hierarchical storage management, which FSx keeps S3 with: what `lfs` says of files, and what it is told.

A file that was imported is `released` until its content is read or restored. A file is in S3 as it is now when it is
`archived` and not `dirty`. Requests are taken at once and done later; `hsm_action` says NOOP when none is left.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpucluster_node.batches import batches

FILES_PER_CALL = 100
TIMEOUT_S = 300
_DIRTY, _RELEASED, _ARCHIVED, _LOST = 0x2, 0x4, 0x8, 0x40
_STATE = re.compile(r"(?P<path>.*): \((?P<flags>0x[0-9a-fA-F]+)\)")
_ACTION = re.compile(r"(?P<path>.*): (?P<action>NOOP|[A-Z]+ [a-z]+.*)")
IDLE = "NOOP"


@dataclass(frozen=True)
class State:
    flags: int

    @property
    def loaded(self) -> bool:
        """Its content is on Lustre."""
        return not self.flags & _RELEASED

    @property
    def exported(self) -> bool:
        """Its content, as it is now, is in S3."""
        return bool(self.flags & _ARCHIVED) and not self.flags & (_DIRTY | _LOST)


class LfsError(Exception):
    """lfs refused, in its own words."""


Run = Callable[[Sequence[str]], str]


def run(argv: Sequence[str]) -> str:
    """Raises LfsError, and OSError where there is no lfs."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="surrogateescape", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LfsError(f"{argv[1]} did not answer within {TIMEOUT_S} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LfsError(said[-1] if said else f"{' '.join(argv[:2])} exited with {done.returncode}")
    return done.stdout


def parse_states(text: str) -> dict[str, State]:
    """Of `lfs hsm_state`: `/fsx/a: (0x0000000d) released exists archived, archive_id:1`."""
    found = (match for line in text.splitlines() if (match := _STATE.match(line)))
    return {match["path"]: State(int(match["flags"], 16)) for match in found}


def parse_actions(text: str) -> dict[str, str]:
    """Of `lfs hsm_action`: `/fsx/a: NOOP`, `/fsx/a: ARCHIVE running (4096 bytes moved)`."""
    found = (match for line in text.splitlines() if (match := _ACTION.fullmatch(line.rstrip())))
    return {match["path"]: match["action"] for match in found}


def states(paths: Sequence[str], run: Run = run) -> tuple[dict[str, State], dict[str, str]]:
    """Of each file, or what lfs said against it."""
    found: dict[str, State] = {}
    failed: dict[str, str] = {}
    for batch, said in _asked("hsm_state", paths, failed, run):
        known = parse_states(said)
        found |= {path: known[path] for path in batch if path in known}
        failed |= {path: "lfs says nothing of it" for path in batch if path not in known}
    return found, failed


def actions(paths: Sequence[str], run: Run = run) -> dict[str, str]:
    """What is being done with each, and how far; IDLE where it is nothing."""
    return {
        path: what for _, said in _asked("hsm_action", paths, {}, run) for path, what in parse_actions(said).items()
    }


def request(verb: str, paths: Sequence[str], run: Run = run) -> dict[str, str]:
    """verb: hsm_restore | hsm_archive. What lfs said against those that it did not take."""
    failed: dict[str, str] = {}
    for _ in _asked(verb, paths, failed, run):
        pass
    return failed


def _asked(verb: str, paths: Sequence[str], failed: dict[str, str], run: Run) -> Iterator[tuple[list[str], str]]:
    """lfs stops at the first file that it has trouble with: then each is asked for by itself."""
    for batch in batches(paths, FILES_PER_CALL):
        try:
            yield batch, run(["lfs", verb, *batch])
        except LfsError as error:
            if len(batch) == 1:
                failed[batch[0]] = str(error)
                continue
            for path in batch:
                yield from _asked(verb, [path], failed, run)
