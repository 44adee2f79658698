"""The steps' tunnels to EFS, checked by the local image's stunnel, which refuses insecure settings."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from test_storage_steps import EFS_DNS, Node, efs

from localcloud.machines.image import GUEST_FILES


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "compute")


STUNNEL = GUEST_FILES / "usr/bin/stunnel"


def test_the_local_images_stunnel_accepts_the_steps_configuration(node: Node) -> None:
    node.has(efs())
    node.run("storage_mounts").check_returncode()
    (conf,) = (node.root / "etc/gpucluster/tunnels").iterdir()
    note = node.root / "notes/225"
    tunnel = subprocess.Popen([STUNNEL, conf], env={**os.environ, "LOCALCLOUD_TUNNELS": str(note.parent)})
    try:
        for _ in range(200):
            if note.exists():
                break
            time.sleep(0.05)
        assert note.read_text() == f"{EFS_DNS}\n"
    finally:
        tunnel.terminate()
        tunnel.wait(10)
    assert not note.exists()


UNSAFE = {
    "anybody's certificate": ("verifyChain = yes", "verifyChain = no", "verifychain = yes expected, got no"),
    "another's name": (f"checkHost = {EFS_DNS}", "checkHost = other", "checkHost other is not the server"),
    "open to the network": ("accept = 127.0.0.1:", "accept = 0.0.0.0:", "accept on 127.0.0.1"),
    "authorities that are not there": ("ca-certificates.crt", "nowhere.crt", "nowhere.crt: no such file"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_tunnel_that_would_not_be_safe_is_refused(node: Node, name: str) -> None:
    before, after, why = UNSAFE[name]
    node.has(efs())
    node.run("storage_mounts").check_returncode()
    (conf,) = (node.root / "etc/gpucluster/tunnels").iterdir()
    assert before in conf.read_text()
    conf.write_text(conf.read_text().replace(before, after))
    done = subprocess.run([STUNNEL, conf], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and why in done.stderr
