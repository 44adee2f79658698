"""Output of programs and launchers becomes lines: in linear time, with bounded memory, whatever the pieces."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from gpucluster_job import log
from gpucluster_job.ranks.program import Lines

PIECE = b"x" * 2**16
MIB = 2**20


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    found: list[bytes] = []
    monkeypatch.setattr("gpucluster_job.ranks.program._write", found.append)
    monkeypatch.setattr("gpucluster_job.log.write", found.append)
    return found


def taker_of(name: str) -> Callable[[bytes], None]:
    return Lines("[0 n] ").take if name == "rank" else log.LauncherOutput().take


TAKERS = ["rank", "launcher"]


def cpu_s(take: Callable[[bytes], None], pieces: int) -> float:
    started = time.process_time()
    for _ in range(pieces):
        take(PIECE)
    return time.process_time() - started


@pytest.mark.parametrize("taker", TAKERS)
def test_a_long_line_takes_linear_time(monkeypatch: pytest.MonkeyPatch, taker: str) -> None:
    monkeypatch.setattr("gpucluster_job.ranks.program._write", lambda data: None)
    monkeypatch.setattr("gpucluster_job.log.write", lambda data: None)
    assert cpu_s(taker_of(taker), 64 * 16) < 1.5  # 64 MiB; quadratic: minutes


@pytest.mark.parametrize("taker", TAKERS)
def test_a_long_line_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch, taker: str) -> None:
    monkeypatch.setattr("gpucluster_job.ranks.program._write", lambda data: None)
    monkeypatch.setattr("gpucluster_job.log.write", lambda data: None)
    take = taker_of(taker)
    tracemalloc.start()
    for number in range(64 * 16):
        take(PIECE[:-1] + (b"\n" if number % 40 == 39 else b"y"))
    assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    tracemalloc.stop()


def test_a_long_line_is_cut_and_each_part_is_labelled(written: list[bytes]) -> None:
    lines = Lines("[0 n] ")
    for _ in range(40):
        lines.take(PIECE)
    lines.take(b"end\nnext\n")
    parts = b"".join(written).split(b"\n")
    assert all(part.startswith(b"[0 n] ") for part in parts[:-1]) and parts[-1] == b""
    assert b"".join(part[len(b"[0 n] ") :] for part in parts[:-1]) == PIECE * 40 + b"endnext"
    assert max(map(len, parts)) < 2 * MIB and len(parts) == 5
    output = log.LauncherOutput()
    start = len(written)
    for at in range(0, len(part := parts[0] + b"\n"), 2**16):
        output.take(part[at : at + 2**16])
    assert b"".join(written[start:]) == part  # a rank's part is not cut again, which would lose its label


def test_a_line_that_ends_where_it_would_be_cut_has_no_empty_line_after_it(written: list[bytes]) -> None:
    lines = Lines("[0 n] ")
    for _ in range(17):
        lines.take(PIECE)
    lines.take(b"\nnext\n\n")
    assert b"".join(written).replace(PIECE, b"X") == b"[0 n] " + b"X" * 17 + b"\n[0 n] next\n[0 n] \n"


@pytest.mark.parametrize("pieces", [[b"50%\r", b"\nnext\n"], [b"50%\r\nnext\n"], [b"50%", b"\r", b"\n", b"next\n"]])
def test_a_line_of_windows_is_one_line_whatever_the_pieces(written: list[bytes], pieces: list[bytes]) -> None:
    lines = Lines("[0 n] ")
    for piece in pieces:
        lines.take(piece)
    assert b"".join(written) == b"[0 n] 50%\n[0 n] next\n"


def test_only_the_beginnings_of_the_last_lines_are_kept(written: list[bytes]) -> None:
    lines = Lines("[0 n] ")
    for _ in range(100):
        lines.take(PIECE + b"\n")
    assert sum(map(len, lines.last)) < MIB
