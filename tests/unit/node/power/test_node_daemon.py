"""The daemon's own life: what it tells systemd's watchdog, and what an error of its own ends."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpucluster_node import slurm
from gpucluster_node.power import daemon, journal, reconcile

from localcloud.testing.patience import wait_for


def rounds_of(once: Any) -> daemon.Rounds:
    rounds: Any = SimpleNamespace(cluster=None, once=once)
    return daemon.Rounds(rounds)


def test_systemd_is_told_over_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon.tell_systemd("WATCHDOG=1")
        assert systemd.recv(100) == b"WATCHDOG=1"
    monkeypatch.delenv("NOTIFY_SOCKET")
    daemon.tell_systemd("WATCHDOG=1")  # not started by systemd


def test_a_daemon_whose_rounds_hang_or_have_ended_tells_systemd_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "prepare", lambda cluster: None)
    monkeypatch.setattr(threading, "excepthook", lambda raised: None)
    hangs = threading.Event()

    def once() -> float:
        hangs.wait(60)
        raise SystemExit

    rounds = rounds_of(once)
    assert not rounds.lasts(), "not begun"
    rounds.start()
    assert rounds.lasts()
    monkeypatch.setattr(daemon, "ROUND_S", 0.0)
    time.sleep(0.01)
    assert not rounds.lasts(), "it hangs"
    monkeypatch.setattr(daemon, "ROUND_S", 900.0)
    hangs.set()
    wait_for("the end of the thread", lambda: not rounds.is_alive(), 10)
    assert not rounds.lasts()


@pytest.mark.parametrize("error", [slurm.SlurmError("no answer"), KeyError("ours")], ids=["of Slurm", "of our own"])
def test_an_error_in_a_round_ends_neither_the_rounds_nor_the_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: reconcile.Rounds) -> list[reconcile.Action]:
        raise error

    monkeypatch.setattr(reconcile.Rounds, "actions", fail)
    unused: Any = None
    rounds = reconcile.Rounds(*[unused] * 7, journal.Journal(tmp_path))
    assert rounds.once() == reconcile.INTERVAL_S
    assert "skipped" in caplog.text
