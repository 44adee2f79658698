"""How far a node's clock is off: asked of a real time server's answer, and of the local cloud's."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpucluster_node.health import checks, clock, facts
from gpucluster_node.health.checks import Answer

from gpucluster.head import clock as head_clock
from localcloud.machines import time_server
from tests.in_process import InProcessRemote

BOOTSTRAP = Path(__file__).resolve().parents[3] / "bootstrap"
# A real answer. command: chronyd 4.3 with `local stratum 3`, asked by clock.py on 23 November 2026
CHRONYD = bytes.fromhex(
    "240300e600000000000000007f7f0101eeaedbe167e7f561eeaedbe28cace000eeaedbe28cb0f463eeaedbe28cb47e36"
)


@pytest.fixture
def ahead() -> Iterator[tuple[int, list[float]]]:
    """The port of a time server, and by how much this machine's clock seems to be ahead of it."""
    off, listener = [0.0], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    time_server.serve(listener, lambda address: off[0] if address == "127.0.0.1" else 1e6)
    yield listener.getsockname()[1], off
    time_server.end(listener)


def asked(port: int) -> Answer:
    argv = [sys.executable, "-m", "gpucluster_node.health.clock", "127.0.0.1", str(port)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=BOOTSTRAP, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, []),
        (29.0, []),
        (600.0, ["its clock is 600 s ahead of Amazon's time service"]),
        (-45.0, ["its clock is 45 s behind Amazon's time service"]),
    ],
)
def test_a_clock_that_is_off_is_found(ahead: tuple[int, list[float]], seconds: float, said: list[str]) -> None:
    port, off = ahead
    off[0] = seconds
    assert list(checks.clock(asked(port), facts.Facts())) == said


def test_without_a_time_server_nothing_is_proved() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = asked(port)
    assert answer.code and "Connection refused" in answer.errors
    assert list(checks.clock(answer, facts.Facts())) == []


def test_a_real_servers_answer_is_read_and_one_that_does_not_know_the_time_is_not() -> None:
    said = clock.server_epoch_s(CHRONYD, CHRONYD[24:32])
    assert time.strftime("%Y-%m-%d %H:%M", time.gmtime(said)) == "2026-11-23 15:36"
    unsynchronized = bytes([CHRONYD[0] | 0xC0]) + CHRONYD[1:]
    with pytest.raises(ValueError, match="does not know the time"):
        clock.server_epoch_s(unsynchronized, CHRONYD[24:32])
    with pytest.raises(ValueError, match="not an answer"):
        clock.server_epoch_s(CHRONYD, bytes(8))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, ""), (400.0, "400 s ahead of Amazon's time service"), (-31.0, "31 s behind Amazon's time service")],
)
def test_status_warns_of_the_head_nodes_clock(
    ahead: tuple[int, list[float]], monkeypatch: pytest.MonkeyPatch, seconds: float, said: str
) -> None:
    """With the program of the bundle; it needs no other file."""
    port, off = ahead
    off[0] = seconds
    program = str(BOOTSTRAP / "gpucluster_node/health/clock.py")
    assert head_clock.ARGV[-1].endswith("/bundle/gpucluster_node/health/clock.py")
    monkeypatch.setattr(head_clock, "ARGV", [sys.executable, program, "127.0.0.1", str(port)])
    words = head_clock.words(InProcessRemote())
    assert said in words and words.startswith("WARNING: the head node's clock is") is bool(said)
    monkeypatch.setattr(head_clock, "ARGV", ["false"])
    assert head_clock.words(InProcessRemote()) == "", "the time service does not answer"
