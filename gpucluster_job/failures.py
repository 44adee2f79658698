"""How ranks failed: each writes a file the moment it does. A program can print what it likes, and be believed in
nothing."""

from __future__ import annotations

import json
import os
import re
import time
from typing import NamedTuple

_BECAUSE_OF_A_PEER = re.compile(
    "connection (closed|reset|refused)|broken pipe|peer|horovodinternalerror|nccl|gloo|socket", re.IGNORECASE
)


class Failure(NamedTuple):
    at: float
    """When its program ended, as time.time() has it."""
    code: int
    label: str
    """The rank's number; of a process that is no rank: what it is."""
    node: str
    reason: str

    @property
    def who(self) -> str:
        return f"rank {self.label}" if self.label.isdigit() else self.label

    @property
    def because_of_a_peer(self) -> bool:
        """A rank that lost its peer mostly fails because the peer did, and may be quicker to say so."""
        return bool(_BECAUSE_OF_A_PEER.search(self.reason))


def folder(name: str) -> str:
    """A new one for each run of the job, which is listed once, at its end: an NFS client may answer with the listing
    that it had half a minute ago."""
    path = f"{os.environ['GPUCLUSTER_JOB_DIR']}/failures/{name}-{time.time_ns()}"
    os.makedirs(path)
    return path


def record(failure: Failure) -> None:
    """Other ranks of an elastic job may have had the same number. The file is there whole or not at all."""
    place, name = os.environ["GPUCLUSTER_FAILURES"], f"{failure.label}-{failure.node}-{os.getpid()}.json"
    with open(f"{place}/.{name}", "w", encoding="utf-8") as file:
        file.write(json.dumps(failure._asdict()) + "\n")
    os.replace(f"{place}/.{name}", f"{place}/{name}")


def recorded(place: str) -> list[Failure]:
    """The likeliest cause first."""
    found = []
    for name in os.listdir(place):
        if not name.startswith("."):
            with open(f"{place}/{name}", encoding="utf-8") as file:
                found.append(Failure(**json.load(file)))
    return sorted(found, key=lambda each: (each.because_of_a_peer, each.at))
