"""`gpucluster ssh -- COMMAND` through a real SSH server: its bytes, its exit code, and a connection that breaks."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import signal
import sys
import termios
import threading
import time
from types import SimpleNamespace

import pytest
from ssh_head import no_longer_sends, once, running_head

from gpucluster.errors import RemoteError
from gpucluster.head import terminal
from gpucluster.head.remote import SshRemote
from gpucluster.head.tunnel import TunnelSocket
from localcloud.testing import patience

BROKE = "error: the connection to the head node broke\n"


@pytest.fixture
def head():
    with running_head() as head:
        yield head


@pytest.fixture
def channel(head):
    remote = SshRemote(head)
    yield remote.session()
    remote.close()


@pytest.fixture
def stdin(monkeypatch):
    """Writes to this process's standard input. A close is its end."""
    read_end, write_end = os.pipe()
    with open(read_end) as ours, open(write_end, "wb", buffering=0) as theirs:
        monkeypatch.setattr("sys.stdin", ours)
        yield theirs


@contextlib.contextmanager
def a_terminal():
    """This process's stdin and stdout. The test types into it and reads what it shows. No fixture, because pytest
    replaces stdout after the set-up."""
    ours, theirs = pty.openpty()
    with (
        open(ours, "r+b", buffering=0) as screen,
        io.TextIOWrapper(open(theirs, "r+b", buffering=0)) as device,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr("sys.stdin", device)
        patched.setattr("sys.stdout", device)
        before = termios.tcgetattr(screen)
        yield screen
        assert screen.closed or termios.tcgetattr(screen) == before


def test_input_outputs_and_exit_code(channel, stdin, capfdbinary):
    stdin.write(b"\x00\xff in")
    stdin.close()
    assert terminal.run(channel, ["sh", "-c", "cat; printf '\\377 err' >&2; exit 7"]) == 7
    assert capfdbinary.readouterr() == (b"\x00\xff in", b"\xff err")


def test_a_connection_that_broke_before_the_command(channel, stdin, capsys, monkeypatch):
    monkeypatch.setattr(TunnelSocket, "send", no_longer_sends)
    assert terminal.run(channel, ["true"]) == 255
    assert capsys.readouterr().err == BROKE


def test_a_connection_that_breaks_under_a_command(head, channel, stdin, capsys, tmp_path):
    with once(tmp_path / "runs", head.cut):
        assert terminal.run(channel, ["sh", "-c", f"touch {tmp_path}/runs; sleep 600"]) == 255
    assert capsys.readouterr().err == BROKE


def test_input_for_a_connection_that_broke(channel, stdin, capsys, monkeypatch, tmp_path):
    """Only the thread that sends has found out."""

    def type_more():
        monkeypatch.setattr(TunnelSocket, "send", no_longer_sends)
        stdin.write(b"x")

    with once(tmp_path / "runs", type_more):
        assert terminal.run(channel, ["sh", "-c", f"touch {tmp_path}/runs; sleep 1; exit 5"]) == 5
    assert capsys.readouterr().err == ""


def test_output_that_a_broken_connection_loses_is_an_error(channel, stdin, capfdbinary, monkeypatch, tmp_path):
    """paramiko sends an acknowledgement for every 200 KB that it reads."""

    def stop_sending():
        monkeypatch.setattr(TunnelSocket, "send", no_longer_sends)
        (tmp_path / "broke").touch()

    script = f"touch {tmp_path}/runs; until [ -e {tmp_path}/broke ]; do sleep 0.05; done; head -c 3000000 /dev/zero"
    with once(tmp_path / "runs", stop_sending):
        assert terminal.run(channel, ["sh", "-c", script]) == 255
    assert capfdbinary.readouterr().err.decode() == BROKE


@pytest.mark.parametrize(("output", "command"), [("stdout", "yes"), ("stderr", "yes >&2")])
def test_a_reader_that_has_ended(head, channel, stdin, output, command):
    """`gpucluster ssh -- yes | head`: `yes` ends, and the verb with it."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb", buffering=0) as closed, pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"sys.{output}", SimpleNamespace(buffer=closed))
        with pytest.raises(BrokenPipeError):
            terminal.run(channel, ["sh", "-c", command])
    patience.wait_for("the command's end", lambda: head.commands[0].poll() is not None, 300, 0.01)


def test_a_stdin_that_cannot_be_read_is_empty(channel, monkeypatch, capfd, tmp_path):
    """For example that of nohup, which is open for writing only."""
    with (tmp_path / "out").open("w") as unreadable:
        monkeypatch.setattr("sys.stdin", unreadable)
        assert terminal.run(channel, ["sh", "-c", "cat; echo done"]) == 0
    assert capfd.readouterr().out == "done\n"


def test_a_stdin_that_does_not_block_is_read_to_its_end(channel, stdin, capfd, tmp_path):
    os.set_blocking(sys.stdin.fileno(), False)

    def more():
        stdin.write(b"second")
        stdin.close()

    stdin.write(b"first ")
    with once(tmp_path / "runs", more):
        assert terminal.run(channel, ["sh", "-c", f"head -c 6; touch {tmp_path}/runs; cat"]) == 0
    assert capfd.readouterr().out == "first second"


def test_a_stdin_that_is_closed_is_empty(channel, monkeypatch, capfd):
    monkeypatch.setattr("sys.stdin", None)
    assert terminal.shell(channel, ["sh", "-c", "cat; echo done"]) == 0
    assert capfd.readouterr().out == "done\n"


def test_a_signal_that_ends_the_command_is_no_broken_connection(channel, stdin, capsys):
    assert terminal.run(channel, ["sh", "-c", "kill -9 $$"]) == 255
    assert capsys.readouterr().err == "error: a signal ended the command on the head node\n"


def test_a_command_that_the_head_node_does_not_start(head, channel, stdin):
    head.on_command = lambda: False
    with pytest.raises(RemoteError, match="^the head node refuses to start a command$") as refused:
        terminal.run(channel, ["true"])
    assert refused.value.hint


def test_a_login(channel):
    with a_terminal() as screen:
        screen.write(b"exit 7\n")
        assert terminal.shell(channel) == 7


def test_an_interactive_command(channel):
    with a_terminal() as screen:
        screen.write(b"typed\n")
        assert screen.read(100) == b"typed\r\n"
        assert terminal.shell(channel, ["sh", "-c", "read line; echo got $line; exit 7"]) == 7
        assert screen.read(100) == b"got typed\n"


def test_an_interactive_command_whose_connection_breaks(head, channel, capsys, tmp_path):
    with a_terminal(), once(tmp_path / "runs", head.cut):
        assert terminal.shell(channel, ["sh", "-c", f"touch {tmp_path}/runs; sleep 600"]) == 255
    assert capsys.readouterr().err == BROKE


def test_a_terminal_that_is_resized_while_a_key_is_sent(head, channel, monkeypatch, tmp_path):
    """paramiko holds a lock while it sends: a handler that sent would wait for itself."""
    send = TunnelSocket.send

    def resized_meanwhile(tunnel, data):
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGWINCH)
        return send(tunnel, data)

    with a_terminal() as screen:

        def type_a_key():
            monkeypatch.setattr(TunnelSocket, "send", resized_meanwhile)
            screen.write(b"x")
            patience.wait_for("the new size", lambda: head.resized, 300, 0.01)
            screen.write(b"\n")

        with once(tmp_path / "runs", type_a_key):
            assert terminal.shell(channel, ["sh", "-c", f"touch {tmp_path}/runs; read line; exit 7"]) == 7


def test_a_terminal_that_is_resized_while_it_is_full_shows_everything(channel, tmp_path):
    """A signal interrupts a write to a terminal."""
    shown = []
    with a_terminal() as screen:

        def read_all():
            for _ in range(20):
                os.kill(os.getpid(), signal.SIGWINCH)
                time.sleep(0.02)
            while sum(map(len, shown)) < 300_000:
                shown.append(screen.read(65536))

        with once(tmp_path / "runs", read_all):
            assert terminal.shell(channel, ["sh", "-c", f"touch {tmp_path}/runs; yes | head -c 300000"]) == 0
    assert b"".join(shown) == b"y\n" * 150_000


def test_output_continues_while_a_command_does_not_read_what_is_typed(channel, tmp_path):
    with a_terminal() as screen:

        def type_without_end():
            with contextlib.suppress(OSError, ValueError):
                while True:
                    screen.write(b"x" * 4096)

        def paste():
            threading.Thread(target=type_without_end, daemon=True).start()
            patience.wait_for("a full window", lambda: channel.out_window_size == 0, 300, 0.01)
            (tmp_path / "full").touch()
            shown = b""
            while b"shown" not in shown:
                shown += screen.read(65536)
            (tmp_path / "seen").touch()

        until = f"until [ -e {tmp_path}/%s ]; do sleep 0.05; done"
        script = f"touch {tmp_path}/runs; {until % 'full'}; echo shown; {until % 'seen'}; exit 7"
        with once(tmp_path / "runs", paste):
            assert terminal.shell(channel, ["sh", "-c", script]) == 7


def test_a_terminal_that_is_gone(channel, tmp_path):
    with (
        a_terminal() as screen,
        once(tmp_path / "runs", screen.close),
        pytest.raises(OSError, match="this terminal is gone"),
    ):
        terminal.shell(channel, ["sh", "-c", f"touch {tmp_path}/runs; sleep 600"])
