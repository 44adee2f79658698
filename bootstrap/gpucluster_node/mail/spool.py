"""What Slurm has to say of jobs: files in a folder, which its MailProg writes (bin/mail-request).

Slurm's user may write into the folder and nothing more, but anything: a file is data to check.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gpucluster_node import spooled
from gpucluster_node.spooled import InvalidError

FOLDER = Path("/run/gpucluster/mail")
MOST_BYTES = 1000
_NAME = re.compile(r"notice\.[A-Za-z0-9]+")
_FORM = re.compile(r"(\d{1,10}) (\d{1,10})\n([A-Z_]{1,40}) (\d{1,5})\n([A-Za-z/%0-9 ]{1,60})\n", re.ASCII)
_KINDS = {"Began": "start", "Ended": "end", "Failed": "failure", "Invalid dependency": "failure"}
"""Slurm's words for its types of mail: _mail_type_str in Slurm's src/slurmctld/agent.c. Others are of no interest."""


@dataclass(frozen=True)
class Notice:
    uid: int
    job_id: str
    """For an array, that of the whole."""
    state: str
    """Slurm's base state: RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT …"""
    event: str
    """start, end or failure; empty: nobody is told."""


def read(path: Path, owners: Collection[int] | None = None) -> Notice:
    """owners: uids whose files count; without it, root's and that of Slurm's user. Raises InvalidError, OSError."""
    if not _NAME.fullmatch(path.name):
        raise InvalidError(f"{path.name!a} is no name of a notice")
    text = spooled.content(path, owners, MOST_BYTES)[0].decode(errors="replace")
    found = _FORM.fullmatch(text)
    if not found:
        raise InvalidError(f"{path.name!a} is no notice: {text[:200]!a}")
    uid, job_id, state, exit_code, kind = found.groups()
    return Notice(int(uid), job_id, state, _event(state, int(exit_code), kind))


def _event(state: str, exit_code: int, kind: str) -> str:
    """Slurm says that an array ended, whatever became of its elements: its exit code is their greatest."""
    event = _KINDS.get(kind, "")
    return "failure" if event == "end" and (state != "COMPLETED" or exit_code) else event
