"""`ssh -L` by the real `ssh` through a context, which keeps its connections open."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from plain_ssh import lead
from ssh_head import running_head

from gpucluster.errors import UsageError
from gpucluster.head import forwarding
from gpucluster.head.forwarding import Ports
from gpucluster.head.login import Address, LoginRemote
from gpucluster.head.openssh import Alias
from gpucluster.head.remote import Completed
from gpucluster.layout import Site
from localcloud.testing.patience import wait_for
from tests.in_process import InProcessRemote

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")


@pytest.fixture
def login() -> Iterator[LoginRemote]:
    """The user's own configuration leads to the login node; the sockets of kept connections are in a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short, running_head() as head:
        users = Alias(Path(short) / "lab")
        users.make()
        lead(users, head)
        address = Address.parse("ssh://lab")
        with closing(LoginRemote("lab", address, Site("/home/me/gpucluster", False))) as remote:
            text = address.config.replace("Include ~/.ssh/config", f"Include {users.config_file}")
            assert "ControlPath ~/.ssh/gpu-%C\n" in text
            remote.alias.config_file.write_text(text.replace("~/.ssh/gpu-%C", f"{short}/%C"))
            yield remote
            remote.end()


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, whatever an earlier test has left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def unused_port() -> int:
    with socket.create_server((forwarding.LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


def taken(ports: Ports) -> bool:
    try:
        ports.check()
    except UsageError:
        return True
    return False


def kept(login: LoginRemote) -> bool:
    argv = ["ssh", "-F", str(login.alias.config_file), "-O", "check", "lab"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def forward_until_interrupted(
    login: LoginRemote, ports: Ports, connected: Callable[[], None], timer: threading.Timer
) -> None:
    with pytest.raises(KeyboardInterrupt):
        try:
            forwarding.forward(forwarding.ssh_argv(login.alias, ports, None), "lab", ports, connected, print)
        finally:
            timer.cancel()


@pytest.mark.parametrize("open_before", [False, True])
def test_a_port_is_forwarded_as_long_as_the_command_runs(login: LoginRemote, open_before: bool) -> None:
    if open_before:
        argv = ["ssh", "-F", str(login.alias.config_file), "lab", "true"]
        subprocess.run(argv, stderr=subprocess.DEVNULL, timeout=60, check=True)
    assert kept(login) == open_before
    ports = Ports(unused_port(), 8888)

    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))  # as Ctrl-C

    def connected() -> None:
        assert taken(ports)
        timer.start()

    forward_until_interrupted(login, ports, connected, timer)
    wait_for("the port is free again", lambda: not taken(ports), 5)
    assert kept(login) == open_before


WORDS_ONLY = f"""#!{sys.executable}
import os, shlex, sys
words = shlex.split(sys.argv[2])
words = words[words[0] == "exec":]
os.execvp(words[0], words)
"""
"""A shell with csh's and sh's common part: words and quotes."""


@pytest.mark.parametrize("shell", ["/bin/sh", "csh", "tcsh", "fish", "words only"])
def test_every_shell_of_the_user_tells_that_the_port_is_there(
    login: LoginRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    """ssh runs LocalCommand with $SHELL (ssh_config(5)). In csh, >&2 names a file."""
    if shell == "words only":
        program = tmp_path / "shell"
        program.write_text(WORDS_ONLY)
        program.chmod(0o755)
    elif (found := shutil.which(shell)) is None:
        pytest.skip(f"no {shell} on this machine")
    else:
        program = Path(found)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("SHELL", str(program))
    ports, ports_taken = Ports(unused_port(), 8888), []

    def connected() -> None:
        ports_taken.append(taken(ports))
        raise KeyboardInterrupt

    timer = threading.Timer(20, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    forward_until_interrupted(login, ports, connected, timer)
    assert ports_taken == [True]
    assert list(work.iterdir()) == []


def test_forwarding_ends_with_the_job_and_not_with_a_head_node_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another job's program on that node would answer next."""
    monkeypatch.setattr(forwarding, "POLL_S", 0.05)
    said: list[str] = []
    answers = iter(["", "", "job 12 has ended"])
    argv = ["sh", "-c", "echo 'gpucluster: connected' >&2; exec sleep 60"]
    forwarding.forward(argv, "train-1", Ports(1, 2), lambda: None, said.append, lambda: next(answers))
    assert said == ["job 12 has ended: port 1 is no longer forwarded"]


def test_whether_the_forwarded_job_still_has_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpucluster.cli.reach import forward
    from gpucluster.errors import RemoteError

    line = "12|{}|train|1|train-1|0:04|UNLIMITED|x|x|serve|{}"

    class Head(InProcessRemote):
        answer: str | None = line.format("RUNNING", "None")

        def run(self, argv: Sequence[str], **given: Any) -> Completed:
            if self.answer is None:
                raise RemoteError("the connection broke")
            return Completed(0, self.answer, "")

    head = Head()
    assert forward.over(head, "12") == ""
    head.answer = None
    assert forward.over(head, "12") == "", "not known: the port stays"
    head.answer = ""
    assert forward.over(head, "12") == "job 12 has ended"
    head.answer = line.format("COMPLETED", "None")
    assert forward.over(head, "12") == "job 12 completed on train-1"
    head.answer = line.format("PENDING", "BeginTime")  # it was requeued, and may get other nodes
    assert forward.over(head, "12") == "job 12 is pending: its begin time, by the cluster's clock, has not come"
