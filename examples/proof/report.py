"""The report of a proof: one file, in Markdown, that can be pasted into an issue. It names no account and no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from command import Ended

TAIL = 40
"""The number of lines shown of a failed command's output."""

_SCRUBBED = (
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<access key>"),
    (re.compile(r"(X-Amz-(?:Credential|Signature|Security-Token)=)[^&\s\"']+"), r"\1<removed>"),
    (re.compile(r"([?&](?:Signature|AWSAccessKeyId)=)[^&\s\"']+"), r"\1<removed>"),
    (re.compile(r"(:(?:user|assumed-role|federated-user)/)[\w+=,.@/-]+"), r"\1<name>"),
    (re.compile(r"(?i)((?:secret|token|password)[\w-]*[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]{8,}"), r"\1<removed>"),
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "<account>"),
    (re.compile(r"\bec2-\d+-\d+-\d+-\d+\b"), "<host>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"), "<address>"),
    (
        re.compile(r"\b(?!10\.|127\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.)\d{1,3}(?:\.\d{1,3}){3}\b"),
        "<ip>",
    ),
)


def scrub(text: str) -> str:
    for pattern, instead in _SCRUBBED:
        text = pattern.sub(instead, text)
    return text


@dataclass(frozen=True)
class Check:
    stage: str
    what: str
    ok: bool | None
    """None: it could not be exercised there."""
    got: str
    seconds: float | None = None


@dataclass
class Report:
    head: dict[str, str]
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, list[str]] = field(default_factory=dict)
    """Stage -> what its nodes said of themselves."""
    failures: list[Ended] = field(default_factory=list)
    left: list[str] | None = None
    """None: nobody could tell."""
    unknown: list[str] = field(default_factory=list)
    """What AWS would not say, such as `fsx: AccessDenied`."""

    @property
    def ok(self) -> bool:
        return (
            self.left == []
            and not self.unknown
            and bool(self.checks)
            and all(check.ok is not False for check in self.checks)
        )

    def text(self) -> str:
        parts = [
            f"# GpuCluster proof: {'passed' if self.ok else 'failed'}",
            "\n".join(f"- {key}: {value}" for key, value in self.head.items()),
            _table(self.checks),
            f"Left over: {_left(self.left)}" + "".join(f"; not known: {each}" for each in self.unknown),
            *(_fenced(f"Nodes of stage {stage}", lines) for stage, lines in self.facts.items()),
            *(_fenced(f"`{_shown(each)}`: exit code {each.exit_code}", each.lines[-TAIL:]) for each in self.failures),
        ]
        return scrub("\n\n".join(parts)) + "\n"


def _shown(ended: Ended) -> str:
    return " ".join(word for word in ended.argv[3:] if word)


def _left(left: Sequence[str] | None) -> str:
    if left is None:
        return "not known: AWS could not be asked"
    return ", ".join(left) or "nothing"


def _table(checks: Iterable[Check]) -> str:
    words = {True: "passed", False: "FAILED", None: "not exercised"}
    rows = [f"| {each.stage} | {each.what} | {words[each.ok]} | {each.got} | {each.seconds or ''} |" for each in checks]
    return "\n".join(["| stage | check | outcome | got | seconds |", "|---|---|---|---|---|", *rows])


def _fenced(title: str, lines: Iterable[str]) -> str:
    return f"## {title}\n\n```\n" + "\n".join(lines) + "\n```"
