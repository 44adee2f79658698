"""Where the seconds of a job went, from its submission to its end, as far as it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from gpucluster.head.remote import Remote


@dataclass(frozen=True)
class Span:
    name: str
    start_s: float
    end_s: float | None
    """None: it has not ended."""
    words: str


def of(remote: Remote, job_id: str) -> list[Span]:
    """In the order of their beginnings. Raises RemoteError."""
    return []
