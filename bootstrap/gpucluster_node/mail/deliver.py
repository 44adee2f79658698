"""Delivers one notice of a job, as the job's user: root neither opens the user's files nor calls the user's addresses.

The input is JSON: cluster, job_id, event, state, final. notify.json in the job's folder says who is told of what. The
output is a line of JSON for each e-mail, which root publishes: subject and text. Nothing here says the address of a
webhook, which is a secret. Needs only Python's standard library, and nothing of this package.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

ATTEMPTS = 3
PAUSE_S = 5.0
LONGEST_PAUSE_S = 30.0
TIMEOUT_S = 10.0
LONGEST_REASON = 600
MOST_BYTES = 2**20
HANG = "no rank has printed a line for "
"""How gpucluster_job/hang.py begins the reason of a job that hung."""
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_SAID = {
    "start": "has started",
    "end": "has completed",
    "failure": "has failed",
    "hang": "hung and was ended",
    "CANCELLED": "was cancelled",
    "TIMEOUT": "was stopped at its time limit",
    "NODE_FAIL": "has lost a node",
}


def main() -> int:
    with suppress(OSError):  # the daemon's, which starts this, is low
        Path("/proc/self/oom_score_adj").write_text("500")
    notice = json.load(sys.stdin)
    folder = Path.home() / "jobs/by-id" / notice["job_id"]
    asked = _json(folder / "notify.json")
    message = Message(notice, asked, {} if notice["event"] == "start" else _json(folder / "result.json"))
    for target in asked.get("targets", []):
        if not wants(target, message.event):
            continue
        if target.get("email"):
            print(json.dumps({"subject": message.subject, "text": message.text}), flush=True)
        elif why := post(target["url"], message):
            _note(folder, f"{message.event} was not sent to {target['name']}: {why}")
    if notice["final"]:
        with suppress(OSError):
            (folder / "notify.json").unlink()
    return 0


def wants(target: dict[str, Any], event: str) -> bool:
    """A hang is a failure, too."""
    return event in target["events"] or (event == "hang" and "failure" in target["events"])


class Message:
    def __init__(self, notice: dict[str, Any], asked: dict[str, Any], result: dict[str, Any]) -> None:
        self.cluster, self.job_id, self.state = notice["cluster"], notice["job_id"], notice["state"]
        self.name = plain(str(asked.get("name") or ""), 64)
        self.reason = plain(str(result.get("reason") or ""), LONGEST_REASON) if notice["event"] == "failure" else ""
        self.event = "hang" if self.reason.startswith(HANG) else notice["event"]
        self.hours = _hours(result)
        rate = asked.get("usd_per_hour")
        self.usd = round(self.hours * float(rate), 2) if rate and self.hours is not None else None
        self.command = f"gpucluster {'logs -f' if self.event == 'start' else 'why'} {self.job_id}"

    @property
    def said(self) -> str:
        return _SAID[self.state if self.event == "failure" and self.state in _SAID else self.event]

    @property
    def subject(self) -> str:
        """SNS takes less than 100 characters without line breaks and control characters, of ASCII in older versions
        of its API: `Subject` of Publish."""
        text = f"{self.cluster}: job {self.job_id} {self.name} {self.said}"
        return " ".join(text.encode("ascii", "replace").decode().split())[:99]

    @property
    def text(self) -> str:
        name = f" ({self.name})" if self.name else ""
        lines = [f"job {self.job_id}{name} on {self.cluster} {self.said}"]
        lines += [self.reason] * bool(self.reason)
        if self.hours is not None:
            price = "" if self.usd is None else f", {self.usd:.2f} USD at the list price of its nodes"
            lines.append(f"it ran for {self.hours:.2f} hours{price}")
        return "\n".join([*lines, f"look further: {self.command}"])

    def payload(self, url: str) -> dict[str, Any]:
        """Slack takes `text`, in which &, < and > are written as in HTML and <!channel> would call everybody
        (docs.slack.dev: Formatting message text). Others get the fields, too."""
        if re.match(r"https://hooks\.slack(-gov)?\.com/", url):
            return {"text": self.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
        fields = ("cluster", "job_id", "name", "event", "state", "reason", "hours", "usd", "command")
        return {"text": self.text, **{name: getattr(self, name) for name in fields}}


def plain(text: str, most: int) -> str:
    """One line without characters that a terminal or a mail program obeys."""
    text = _UNSEEN.sub(" ", text).strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def _hours(result: dict[str, Any]) -> float | None:
    try:
        began, ended = (
            datetime.fromisoformat(result[key].replace("Z", "+00:00")) for key in ("started_at", "ended_at")
        )
    except (KeyError, ValueError, AttributeError):
        return None
    return (ended - began).total_seconds() / 3600


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib follows a redirect with a GET and without the message: a page to log in would count as its arrival."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, message: Message, sleep: Callable[[float], None] = time.sleep) -> str:
    """Why it did not arrive; empty if it did. Tries again if the server is busy or does not answer. Slack answers 200
    and `ok`, or 4xx and one word such as no_service (api.slack.com/changelog/2016-05-17)."""
    why = ""
    for attempt in range(1, ATTEMPTS + 1):
        pause_s = PAUSE_S * attempt
        try:
            body = json.dumps(message.payload(url)).encode()
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code} {plain(error.read(200).decode(errors='replace'), 100)}".strip()
            if error.code != 429 and error.code < 500:
                return why
            with suppress(TypeError, ValueError):
                pause_s = min(float(error.headers["Retry-After"] or ""), LONGEST_PAUSE_S)
        except http.client.InvalidURL:
            return "its address is none"
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = plain(str(getattr(error, "reason", None) or type(error).__name__), 100)
        if attempt < ATTEMPTS:
            sleep(pause_s)
    return why


def _json(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _note(folder: Path, text: str) -> None:
    """`gpucluster fetch` brings the file; nobody else is told of what was not delivered."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError), (folder / "notices.txt").open("a", encoding="utf-8") as file:
        file.write(f"{at} {text}\n")


if __name__ == "__main__":
    sys.exit(main())
