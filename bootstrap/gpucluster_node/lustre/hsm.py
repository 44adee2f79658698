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
_STATE = re.compile(r"\((0x[0-9a-fA-F]{1,8})\)")
_ACTION = re.compile(r"NOOP|[A-Z]+ [a-z]+.*")
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
        done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LfsError(f"{argv[1]} did not answer within {TIMEOUT_S} s") from None
    text, error = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))  # paths are bytes
    if done.returncode:
        said = (error.strip() or text.strip()).splitlines()
        raise LfsError(said[-1] if said else f"{' '.join(argv[:2])} exited with code {done.returncode}")
    return text


def parse_states(text: str, paths: Sequence[str]) -> dict[str, State]:
    """Parses `lfs hsm_state`: `/fsx/a: (0x0000000d) released exists archived, archive_id:1`."""
    found = ((path, _STATE.match(said)) for path, said in _said(text, paths))
    return {path: State(int(match[1], 16)) for path, match in found if match}


def parse_actions(text: str, paths: Sequence[str]) -> dict[str, str]:
    """Parses `lfs hsm_action`: `/fsx/a: NOOP`, `/fsx/a: ARCHIVE running (4096 bytes moved)`."""
    return {path: said.rstrip() for path, said in _said(text, paths) if _ACTION.fullmatch(said.rstrip())}


def _said(text: str, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What lfs printed about each path. It prints them in the order of its arguments, as they are: a line break in a
    user's path could forge the line of another file, so only the path that is due is read."""
    for path in paths:
        if not text.startswith(f"{path}: "):
            return
        said, _, text = text.removeprefix(f"{path}: ").partition("\n")
        yield path, said


def states(paths: Sequence[str], run: Run = run) -> tuple[dict[str, State], dict[str, str]]:
    """The state of each file, or lfs's error."""
    found: dict[str, State] = {}
    failed: dict[str, str] = {}
    for batch, said in _asked("hsm_state", paths, failed, run):
        known = parse_states(said, batch)
        found |= {path: known[path] for path in batch if path in known}
        failed |= {path: "lfs printed nothing about it" for path in batch if path not in known}
    return found, failed


def actions(paths: Sequence[str], run: Run = run) -> dict[str, str]:
    """The current request of each file and its progress; IDLE if there is none."""
    found = (parse_actions(said, batch).items() for batch, said in _asked("hsm_action", paths, {}, run))
    return {path: what for each in found for path, what in each}


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
