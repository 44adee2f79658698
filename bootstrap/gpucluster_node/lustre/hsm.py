"""Lustre's hierarchical storage management, by which FSx synchronises with S3: states of files from `lfs`, and
requests.

An imported file is `released` until its content is read or restored. A file's current content is in S3 if it is
`archived` and not `dirty`. Requests are accepted at once and executed later; `hsm_action` prints NOOP when none is
left.
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
        """Its current content is in S3."""
        return bool(self.flags & _ARCHIVED) and not self.flags & (_DIRTY | _LOST)


class LfsError(Exception):
    """lfs failed; the message is its own."""


Run = Callable[[Sequence[str]], str]


def run(argv: Sequence[str]) -> str:
    """Raises LfsError, and OSError if there is no lfs."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="surrogateescape", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LfsError(f"{argv[1]} did not answer within {TIMEOUT_S} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise LfsError(said[-1] if said else f"{' '.join(argv[:2])} exited with code {done.returncode}")
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
    """The state of each file, or lfs's error."""
    found: dict[str, State] = {}
    failed: dict[str, str] = {}
    for batch, said in _asked("hsm_state", paths, failed, run):
        known = parse_states(said)
        found |= {path: known[path] for path in batch if path in known}
        failed |= {path: "lfs printed nothing about it" for path in batch if path not in known}
    return found, failed


def actions(paths: Sequence[str], run: Run = run) -> dict[str, str]:
    """The current request of each file and its progress; IDLE if there is none."""
    return {
        path: what for _, said in _asked("hsm_action", paths, {}, run) for path, what in parse_actions(said).items()
    }


def request(verb: str, paths: Sequence[str], run: Run = run) -> dict[str, str]:
    """verb: hsm_restore | hsm_archive. Returns lfs's errors for the files that it did not accept."""
    failed: dict[str, str] = {}
    for _ in _asked(verb, paths, failed, run):
        pass
    return failed


def _asked(verb: str, paths: Sequence[str], failed: dict[str, str], run: Run) -> Iterator[tuple[list[str], str]]:
    """lfs stops at the first file with an error; then each file is tried separately."""
    for batch in batches(paths, FILES_PER_CALL):
        try:
            yield batch, run(["lfs", verb, *batch])
        except LfsError as error:
            if len(batch) == 1:
                failed[batch[0]] = str(error)
                continue
            for path in batch:
                yield from _asked(verb, [path], failed, run)
