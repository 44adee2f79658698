"""What a row of the table of causes has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

State = Literal["pending", "refused", "node", "dead", "hung", "slow"]
OfTraining = Literal["FailureReason", "StatusMessage", "SecondaryStatus", "training log"]
Place = Literal["job's reason", "node's reason", "sbatch", "rank", "launcher", "NCCL", "result", "samples", OfTraining]
"""Where the evidence is: Slurm's reason for the job or a node; what sbatch answers; the error that ended the rank that
failed first; the lines of the launcher and of Slurm; NCCL's reports; result.json; the nodes' samples. Of a training job
on SageMaker: members of DescribeTrainingJob; the end of its log."""

LONGEST = 300
"""How much of the text that matches is shown."""


@dataclass(frozen=True)
class Cause:
    id: str
    state: State
    place: Place
    evidence: str
    """A regular expression; of samples and results, a phrase, because code reads them (`slow.py`)."""
    words: str
    """{name} is the group `name` of the expression."""
    advice: str
    """{job} is the job's id."""
    source: str
    """Where the text of the evidence was seen: an issue, a source file, a page."""
    reports: bool = False
    """The rank only reports what happened to another one: it is never the culprit."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.evidence)

    def found(self, text: str) -> Found | None:
        match = self.pattern.search(text)
        return Found(self, _said(self.words, match), _line(text, match)) if match else None


@dataclass(frozen=True)
class Found:
    cause: Cause
    words: str
    evidence: str
    """The line that matches; empty if the words have it."""
    where: str = ""
    """The rank or the node, as a prefix of the words."""

    @property
    def sentence(self) -> str:
        return f"{self.where}: {self.words}" if self.where else self.words


def _said(words: str, match: re.Match[str]) -> str:
    """Only the words' own names are replaced: what the program printed may have braces of its own."""
    given = {name: value or "?" for name, value in match.groupdict().items()}
    return re.sub(r"\{(\w+)\}", lambda found: given.get(found[1], found[0]), words)


def _line(text: str, match: re.Match[str]) -> str:
    start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
    return text[start : end if end >= 0 else None].strip()[:LONGEST]


def first(causes: tuple[Cause, ...], place: Place, text: str) -> Found | None:
    return next(all_of(causes, place, text), None)


def all_of(causes: tuple[Cause, ...], place: Place, text: str) -> Iterator[Found]:
    return (found for cause in causes if cause.place == place and (found := cause.found(text)))
