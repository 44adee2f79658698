"""`ssh -L` by the real `ssh` through a context, which keeps its connections open."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from plain_ssh import lead
from ssh_head import running_head

from gpucluster.errors import UsageError
from gpucluster.head import forwarding
from gpucluster.head.forwarding import Ports
from gpucluster.head.login import Address, LoginRemote
from gpucluster.head.openssh import Alias
from gpucluster.layout import Site
from localcloud.tests.patience import wait_for

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

    with pytest.raises(KeyboardInterrupt):
        try:
            forwarding.forward(forwarding.ssh_argv(login.alias, ports, None), "lab", ports, connected, print)
        finally:
            timer.cancel()
    wait_for("the port is free again", lambda: not taken(ports), 5)
    assert kept(login) == open_before
