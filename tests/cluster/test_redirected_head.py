"""bootstrap/programs/bin/follow-head with the kernel's own address translation, between two network namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.testing.patience import wait_for

PROGRAM = Path(__file__).resolve().parents[2] / "bootstrap/programs/bin/follow-head"
NODE, OLD, NEW = "10.9.0.1", "10.9.0.2", "10.9.0.3"
SLURM, OTHER = 297, 7000
SERVER = f"""
import selectors, socket
ready = selectors.DefaultSelector()
for port in ({SLURM}, {OTHER}):
    ready.register(socket.create_server(("{NEW}", port)), selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        connection, _ = key.fileobj.accept()
        connection.sendall(b"new head")
        connection.close()
"""
CLIENT = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).recv(99).decode())"


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)


@pytest.fixture
def spaces() -> Iterator[tuple[str, str]]:
    """A node and a new head node. No machine has the old head node's address."""
    node, head = (f"gpucluster-{name}-{os.getpid()}" for name in ("node", "head"))
    try:
        for space in (node, head):
            ip(f"netns add {space}")
        ip(f"link add eth0 netns {node} type veth peer name eth0 netns {head}")
        for space, address in ((node, NODE), (head, NEW)):
            ip(f"-n {space} addr add {address}/24 dev eth0")
            ip(f"-n {space} link set eth0 up")
        yield node, head
    finally:
        for space in (node, head):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def answer(node: str, address: str, port: int) -> str:
    argv = ["ip", "netns", "exec", node, sys.executable, "-c", CLIENT, address, str(port)]
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()


def test_only_slurms_ports_at_the_old_address_lead_to_the_new_head(spaces: tuple[str, str], tmp_path: Path) -> None:
    node, head = spaces
    (tmp_path / "address").write_text(f"{OLD} STREAM head\n")
    for name, text in {"getent": f"cat {tmp_path}/address", "sleep": "exec /bin/sleep 0.2"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = PROGRAM.read_text().replace("/run/gpucluster", f"{tmp_path}/run")
    follow = [
        "ip",
        "netns",
        "exec",
        node,
        "env",
        f"PATH={tmp_path}:{os.environ['PATH']}",
        "bash",
        "-c",
        script,
        "x",
        "head",
        "296",
        str(SLURM),
    ]
    serve = ["ip", "netns", "exec", head, sys.executable, "-c", SERVER]
    with subprocess.Popen(serve) as server, subprocess.Popen(follow) as follower:
        try:
            wait_for("the new head", lambda: answer(node, NEW, SLURM) == "new head", 30)
            wait_for("the first address", (tmp_path / "run/head-address").exists, 30)
            assert answer(node, OLD, SLURM) == ""
            (tmp_path / "address").write_text(f"{NEW} STREAM head\n")
            wait_for("the way", lambda: answer(node, OLD, SLURM) == "new head", 30)
            assert answer(node, OLD, OTHER) == "", "another machine may have that address by then"
        finally:
            follower.kill()
            server.kill()
