"""A network that loses every packet, without a word: between two network namespaces, with the kernel's own TCP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAPTOP, ENDPOINT, PORT = "10.9.1.1", "10.9.1.2", 8080
SERVER = f"""
from websockets.sync.server import serve
with serve(lambda websocket: [websocket.send(frame) for frame in websocket], "{ENDPOINT}", {PORT}) as server:
    print("ready", flush=True)
    server.serve_forever()
"""
# Echoes, then waits for a line on stdin, then sends a byte every second, as a keep-alive does.
CLIENT = f"""
import sys, threading, time
from gpucluster.head import tunnel
tunnel._UNACKNOWLEDGED_S = 3
found = tunnel.open_tunnel("ws://{ENDPOINT}:{PORT}/", timeout_s=60)
found.send(b"x")
print("echo", found.recv(9), flush=True)
input()

def keep_alive():
    while True:
        found.send(b"x")
        time.sleep(1)

threading.Thread(target=keep_alive, daemon=True).start()
while found.recv(9):
    pass
print("ended", found.close_reason, flush=True)
"""


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)


@pytest.fixture
def spaces() -> Iterator[tuple[str, str]]:
    laptop, endpoint = (f"gpucluster-{name}-{os.getpid()}" for name in ("laptop", "endpoint"))
    try:
        for space in (laptop, endpoint):
            ip(f"netns add {space}")
        ip(f"link add eth0 netns {laptop} type veth peer name eth0 netns {endpoint}")
        for space, address in ((laptop, LAPTOP), (endpoint, ENDPOINT)):
            ip(f"-n {space} addr add {address}/24 dev eth0")
            ip(f"-n {space} link set eth0 up")
        yield laptop, endpoint
    finally:
        for space in (laptop, endpoint):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def start(space: str, program: str) -> subprocess.Popen[str]:
    argv = ["ip", "netns", "exec", space, sys.executable, "-c", program]
    pipe, environment = subprocess.PIPE, os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def test_a_tunnel_over_a_network_that_is_gone_ends(spaces: tuple[str, str]) -> None:
    laptop, endpoint = spaces
    with start(endpoint, SERVER) as server:
        try:
            assert server.stdout and server.stdout.readline() == "ready\n"
            with start(laptop, CLIENT) as client:
                try:
                    assert client.stdout and client.stdout.readline() == "echo b'x'\n"
                    ip(f"-n {endpoint} link set eth0 nomaster")
                    ip(f"-n {endpoint} addr del {ENDPOINT}/24 dev eth0")
                    output, _ = client.communicate("\n", timeout=60)
                    assert output == "ended the tunnel broke\n"
                finally:
                    client.kill()
        finally:
            server.kill()
