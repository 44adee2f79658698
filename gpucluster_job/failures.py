"""How ranks failed. Each failed rank writes a file at once. Nothing is read from the log, so a program cannot fake a
failure."""

from __future__ import annotations

import json
import os
import re
import time
from typing import NamedTuple

ENDED = b" exited with code "
"""In the line that a failed rank prints, after its label."""
_WAITED = re.compile(
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ms for (recv|send)|Some NCCL operations have"
    r"|Timed out after \d+ seconds waiting for clients|client socket has timed out|RendezvousTimeoutError"
    r"|wait timeout after"
)
"""A rank that waited in vain for another one: c10d's TCPStore.cpp and socket.cpp, ProcessGroupNCCL.cpp, and gloo's
unbound_buffer.cc."""
_BECAUSE_OF_A_PEER = re.compile(
    "connection (closed|reset|refused)|broken pipe|peer|horovodinternalerror|nccl|gloo|socket", re.IGNORECASE
)
_BY_ITSELF = re.compile(
    r"^(out of (memory|the node's memory)|killed by SIG(KILL|SEGV|BUS|ILL|FPE)\b)"
    r"|out of memory|/dev/shm|<?/torch_|Duplicate GPU|using the same GPU|Mismatched NCCL version"
    r"|no socket interface found|CUDA error|uncorrectable ECC|illegal memory access|No space left on device"
    r"|EADDRINUSE|ddress already in use"
)
"""Errors that name a library, or a file of it, and concern only this rank."""
_TYPED = re.compile(r"(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Exit))\b")
_RAISED_BY_LIBRARIES = re.compile(
    r"RuntimeError|OSError|IOError|Dist\w*Error|Connection\w*Error|BrokenPipeError|\w*Timeout\w*Error|TimeoutError"
    r"|HorovodInternalError|UnavailableError|AbortedError|InternalError|UnknownError|MXNetError|CancelledError"
    r"|DeadlineExceededError|Exception|EOFError"
)
"""Kinds of errors in which a rank reports another one's end. A KeyError about 'nccl' is none."""


class Failure(NamedTuple):
    at: float
    """When the rank's program ended, as time.time() gives it."""
    code: int
    label: str
    """The rank's number, or the name of a process that is not a rank."""
    node: str
    reason: str

    @property
    def who(self) -> str:
        return f"rank {self.label}" if self.label.isdigit() else self.label

    @property
    def because_of_a_peer(self) -> bool:
        """A rank that lost its peer usually fails because the peer failed, and may report it first. So does one that
        waited for it, and one that was asked to end."""
        if waited(self.reason) or self.reason.startswith("killed by SIGTERM"):
            return True
        typed = _TYPED.match(self.reason)
        if _BY_ITSELF.search(self.reason) or (typed and not _RAISED_BY_LIBRARIES.fullmatch(typed[1])):
            return False
        return bool(_BECAUSE_OF_A_PEER.search(self.reason))


def waited(reason: str) -> bool:
    """Whether this rank waited for another one that did not come."""
    return bool(_WAITED.search(reason))


def folder(name: str) -> str:
    """Each run of the job has a new folder, and reads it only once, at the end: an NFS client may return a listing that
    is half a minute old."""
    path = f"{os.environ['GPUCLUSTER_JOB_DIR']}/failures/{name}-{time.time_ns()}"
    os.makedirs(path)
    return path


def record(failure: Failure) -> None:
    """Ranks of an elastic job can have a number that another rank had before, so the file's name has more than the
    number. The file is written in one step."""
    place, name = os.environ["GPUCLUSTER_FAILURES"], f"{failure.label}-{failure.node}-{os.getpid()}.json"
    with open(f"{place}/.{name}", "w", encoding="utf-8") as file:
        file.write(json.dumps(failure._asdict()) + "\n")
    os.replace(f"{place}/.{name}", f"{place}/{name}")


def recorded(place: str) -> list[Failure]:
    """The most likely cause first."""
    failed = [each for each in _ended(place) if each.code]
    return sorted(failed, key=lambda each: (each.because_of_a_peer, each.at))


def left_early(place: str) -> list[Failure]:
    """Ranks of an elastic job that have ended with exit code 0, the first one first."""
    return sorted((each for each in _ended(place) if not each.code), key=lambda each: each.at)


def _ended(place: str) -> list[Failure]:
    found = []
    for name in os.listdir(place):
        if not name.startswith("."):
            with open(f"{place}/{name}", encoding="utf-8") as file:
                found.append(Failure(**json.load(file)))
    return found
