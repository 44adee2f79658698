"""`gpucluster ui` as people start it, for a cluster that does not answer."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gpucluster.contexts.probe import Facts
from gpucluster.contexts.store import Context, Contexts
from localcloud.testing.patience import wait_for


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A context whose login node refuses connections."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Contexts({"away": Context("away", "ssh://127.0.0.1:1", "gpucluster", FACTS)}).save()
    return {**os.environ, "HOME": str(tmp_path)}


FACTS = Facts("/home/me", "me", "/usr/bin", "slurm 24.11.5", "3.11", "nfs", accounting=False, pyxis=False)


@contextmanager
def started(settings: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "gpucluster.cli", "--context", "away", "ui", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as process:
        try:
            yield process
        finally:
            process.kill()


def get(url: str, **headers: str) -> tuple[http.client.HTTPResponse, str]:
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/.*)", url)
    assert found
    with closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)) as connection:
        connection.request("GET", found[2], headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_one_address_until_ctrl_c(settings: dict[str, str], ends: signal.Signals) -> None:
    with started({**settings, "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22"}) as process:
        assert process.stdout and process.stderr
        url = process.stdout.readline().strip()
        port = url.split(":")[2].split("/")[0]
        assert f"ssh -L {port}:127.0.0.1:{port} " in process.stderr.readline()
        entered, _ = get(url)
        cookie = entered.headers["Set-Cookie"].split(";")[0]
        base = url.partition("/?")[0]
        answer, text = get(f"{base}/parts/cluster", Cookie=cookie)
        assert answer.status == 200 and "Connection refused" in text
        stream = socket.create_connection(("127.0.0.1", int(port)))
        stream.sendall(f"GET /beats HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
        assert stream.recv(100)  # an open tab must not keep it
        process.send_signal(ends)
        out, error = process.communicate(timeout=30)
        stream.close()
        assert (process.returncode, out) == (0, ""), error
        assert error.strip() == "the page has ended; jobs continue"


def test_the_token_is_in_no_programs_arguments(settings: dict[str, str], tmp_path: Path) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(
        f'#!/bin/sh\npage=$(echo "$1" | sed s,file://,,)\n'
        f'{{ echo "$*"; stat -c %a "$page"; cat "$page"; }} >{seen}.new; mv {seen}.new {seen}\n'
    )
    browser.chmod(0o755)
    with started({**settings, "BROWSER": f"{browser} %s"}, "--open") as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        wait_for("the browser", seen.exists, 30)
        arguments, mode, page = seen.read_text().splitlines()
        assert url.partition("token=")[2] not in arguments and mode == "600" and f"0;url={url}" in page
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert not list(tmp_path.glob("gpucluster-ui-*"))


def test_a_port_in_use_is_named(settings: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with started(settings, "--port", str(port)) as process:
            _, error = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"error: --port {port}: that port of this machine is in use" in error
