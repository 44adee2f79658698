"""One notice, delivered to a real HTTP server, and as an e-mail for root to publish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node.mail import deliver

FAILED = {
    "exit_code": 1,
    "reason": "ValueError: <!channel> & more\x1b[31m\nsecond line",
    "started_at": "2026-11-29T08:00:00Z",
    "ended_at": "2026-11-29T09:30:00Z",
}
FAILURE = {"cluster": "lab", "job_id": "12", "event": "failure", "state": "FAILED", "final": True}


class Server:
    """Answers with these codes, one after another, and keeps what it was sent."""

    def __init__(self) -> None:
        self.codes, self.got = [200], list[dict[str, Any]]()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802 - http.server's name
                server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(server.codes.pop(0) if len(server.codes) > 1 else server.codes[0])
                self.send_header("Retry-After", "7")
                self.send_header("Location", "/login")
                self.end_headers()
                self.wfile.write(b"no_service")

            def do_GET(self) -> None:  # noqa: N802
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/secret-path"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.http.shutdown()
    found.http.server_close()


def delivered(home: Path, notice: dict[str, Any], targets: list[dict[str, Any]], result: Any = FAILED) -> list[Any]:
    """The e-mails."""
    folder = home / "jobs/by-id/12"
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"name": "digits", "usd_per_hour": 10.0, "targets": targets}
    (folder / "notify.json").write_text(json.dumps(asked))
    (folder / "result.json").write_text(json.dumps(result))
    argv = [sys.executable, "-IS", deliver.__file__]
    done = subprocess.run(
        argv, input=json.dumps(notice), env={"HOME": str(home)}, text=True, capture_output=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_webhook_gets_job_state_reason_price_and_command(tmp_path: Path, server: Server) -> None:
    hook = {"name": "HOOK", "url": server.url, "events": ["failure"]}
    assert delivered(tmp_path, FAILURE, [hook]) == []
    assert server.got == [
        {
            "text": "job 12 (digits) on lab has failed\nValueError: <!channel> & more [31m second line\n"
            "it ran for 1.50 hours, 15.00 USD at the list price of its nodes\nlook further: gpucluster why 12",
            "cluster": "lab",
            "job_id": "12",
            "name": "digits",
            "event": "failure",
            "state": "FAILED",
            "reason": "ValueError: <!channel> & more [31m second line",
            "hours": 1.5,
            "usd": 15.0,
            "command": "gpucluster why 12",
        }
    ]


def test_an_e_mail_is_left_to_root(tmp_path: Path) -> None:
    (mail,) = delivered(tmp_path, FAILURE, [{"email": True, "events": ["failure"]}])
    assert mail["subject"] == "lab: job 12 digits has failed" and mail["text"].startswith("job 12 (digits) on lab")


def test_each_target_hears_only_what_it_asked_for(tmp_path: Path) -> None:
    everything = {"email": True, "events": ["start", "end", "failure", "hang"]}
    start = FAILURE | {"event": "start", "state": "RUNNING", "final": False}
    assert delivered(tmp_path, start, [{"email": True, "events": ["end", "failure", "hang"]}]) == []
    (mail,) = delivered(tmp_path, start, [everything])
    assert mail["subject"] == "lab: job 12 digits has started" and mail["text"].endswith("gpucluster logs -f 12")
    end = FAILURE | {"event": "end", "state": "COMPLETED"}
    (mail,) = delivered(tmp_path, end, [everything])
    assert mail["subject"] == "lab: job 12 digits has completed" and "ValueError" not in mail["text"]


def test_a_hang_is_a_failure_too(tmp_path: Path) -> None:
    hung = FAILED | {"reason": "no rank has printed a line for 30 min (hang_timeout); rank 3 on train-2 was the last"}
    for events, mails in ((["hang"], 1), (["failure"], 1), (["end"], 0)):
        found = delivered(tmp_path, FAILURE, [{"email": True, "events": events}], hung)
        assert len(found) == mails and all("hung and was ended" in mail["subject"] for mail in found)
    assert delivered(tmp_path, FAILURE, [{"email": True, "events": ["hang"]}]) == []


def test_the_job_says_what_the_reason_of_a_hang_is() -> None:
    text = (Path(__file__).parents[4] / "gpucluster_job/hang.py").read_text()
    assert f'self._said = f"{deliver.HANG}{{' in text


def test_the_addresses_go_with_the_last_notice(tmp_path: Path) -> None:
    file = tmp_path / "jobs/by-id/12/notify.json"
    delivered(tmp_path, FAILURE | {"final": False}, [])
    assert file.exists()
    delivered(tmp_path, FAILURE, [])
    assert not file.exists()
    argv = [sys.executable, "-IS", deliver.__file__]
    again = subprocess.run(argv, input=json.dumps(FAILURE), env={"HOME": str(tmp_path)}, text=True, capture_output=True)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_an_address_that_is_refused_is_noted_without_the_address(tmp_path: Path, server: Server) -> None:
    server.codes = [404]
    hooks = [
        {"name": "HOOK", "url": server.url, "events": ["failure"]},
        {"name": "ODD", "url": "http://[secret-path", "events": ["failure"]},
    ]
    delivered(tmp_path, FAILURE, hooks[:1])
    noted = (tmp_path / "jobs/by-id/12/notices.txt").read_text()
    assert noted.endswith("Z failure was not sent to HOOK: HTTP 404 no_service\n") and len(server.got) == 1
    assert "secret-path" not in noted


def message(**more: Any) -> deliver.Message:
    return deliver.Message(FAILURE | more, {"name": "digits"}, FAILED)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_page_to_log_in_is_no_arrival(server: Server, code: int) -> None:
    server.codes = [code]
    message = deliver.Message(FAILURE, {}, FAILED)
    assert deliver.post(server.url, message, lambda pause_s: None).startswith(f"HTTP {code}")
    assert len(server.got) == 1


def test_an_address_that_is_none_keeps_no_message_from_others(tmp_path: Path, server: Server) -> None:
    odd, hook = ({"name": "HOOK", "url": url, "events": ["failure"]} for url in ("http://a:b/secret", server.url))
    delivered(tmp_path, FAILURE, [odd, hook])
    folder = tmp_path / "jobs/by-id/12"
    assert len(server.got) == 1 and not (folder / "notify.json").exists()
    assert "failure was not sent to HOOK" in (folder / "notices.txt").read_text()


def test_a_busy_server_is_asked_again_and_not_for_ever(server: Server) -> None:
    slept: list[float] = []
    server.codes = [429, 503, 200]
    assert deliver.post(server.url, message(), slept.append) == "" and slept == [7.0, 7.0]
    server.codes = [500]
    assert deliver.post(server.url, message(), slept.append) == "HTTP 500 no_service"
    assert len(server.got) == 6


def test_a_server_that_does_not_answer_costs_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(deliver, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/secret"
        why = deliver.post(url, message(), lambda seconds: None)
    assert "timed out" in why.lower() or "Timeout" in why, why
    assert deliver.post("http://127.0.0.1:1/secret", message(), lambda seconds: None)
    assert deliver.post("http://[secret", message(), lambda seconds: None)


def test_slack_gets_text_that_calls_nobody() -> None:
    payload = message().payload("https://hooks.slack.com/services/T0/B0/x")
    assert list(payload) == ["text"] and "&lt;!channel&gt; &amp; more" in payload["text"]
    assert "<!channel>" in message().payload("https://hooks.slack.com.evil.example/")["text"]


def test_a_subject_is_one_that_sns_takes() -> None:
    for name in ("é" * 200, "a\r\nBcc: x", "\x1b]52;c;x\x07"):
        subject = deliver.Message(FAILURE, {"name": name}, {}).subject
        assert subject.isascii() and subject.isprintable() and len(subject) < 100, subject


def test_a_users_odd_files_harm_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "jobs/by-id/12"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-IS", deliver.__file__]
    for content in (b"[]", b"\xff", b"{" * 100_000, b'{"targets": []}'):
        (folder / "notify.json").write_bytes(content)
        (folder / "result.json").write_bytes(content)
        done = subprocess.run(
            argv, input=json.dumps(FAILURE), env={"HOME": str(tmp_path)}, text=True, capture_output=True
        )
        assert done.stdout == "", done.stderr
    assert os.listdir(folder) == ["result.json"]
