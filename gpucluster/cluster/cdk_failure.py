"""Why the CDK command line failed, from its output.

Recorded outputs are in tests/data/cdk. The command line ends with the error's message and a line `‣ NAME: MESSAGE` for
each cause (lib/cli/pretty-print-error.ts), of which some have no message. Before that it may print `❌ …`, the stack
trace, and the error object as Node.js shows it.
"""

from __future__ import annotations

import re

_TRACE = re.compile(r"^\s+at ")
_SHOWN_OBJECT = re.compile(r"^\}|^\s+('?[\w$]+'?|\[\w+\]): ")
_CAUSE = re.compile(r"^‣ \w+: ?(.*)$")
_NOT_ASSUMED = re.compile(r"could not be used to assume '(?:arn:[^']*:role/)?([^']+)'")
_APP_ENDED = re.compile(r"Subprocess exited with error|exited with code \d+")
_SPECIFIC = (
    re.compile(r": fail: (.+)$"),  # a file that was not uploaded
    re.compile(r"^\[Error at [^\]]*\] (.+)$"),  # of the app, or of a look-up
    re.compile(r"❌ +(?!Deployment failed|.* failed: AggregateError)(.+)$"),
)


def reason(lines: list[str]) -> str:
    """One line. The roles that CDK could not assume are named too: without them it goes on with the caller's own
    permissions, and the error is about what these do not allow."""
    said = [line.rstrip() for line in lines if _is_message(line)]
    found = _specific(said) or _deepest_cause(said) or _of_the_app(said) or (said or ["no output"])[-1].strip()
    roles = dict.fromkeys(match[1] for match in map(_NOT_ASSUMED.search, said) if match)
    denied = roles and re.search(r"not authorized|denied", found, re.IGNORECASE)
    return f"{found} (your credentials may not assume {', '.join(roles)})" if denied else found


def _is_message(line: str) -> bool:
    return bool(line.strip()) and not _TRACE.search(line) and not _SHOWN_OBJECT.search(line)


def _specific(said: list[str]) -> str:
    matches = (pattern.search(line) for pattern in _SPECIFIC for line in said)
    return next((match[1].removesuffix(" {") for match in matches if match), "")


def _deepest_cause(said: list[str]) -> str:
    causes = [match[1] for match in map(_CAUSE.search, said) if match and match[1]]
    return causes[-1] if causes else ""


def _of_the_app(said: list[str]) -> str:
    """What the app printed before it ended: a traceback's last line, or the message of ours."""
    if not said or not _APP_ENDED.search(said[-1]):
        return ""
    return next((line for line in reversed(said[:-1]) if not line.startswith(" ")), "")
