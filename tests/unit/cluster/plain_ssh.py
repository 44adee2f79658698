"""Connects the real ssh to `ssh_head.Head`, like `gpucluster tunnel` but without AWS."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from ssh_head import Head

from gpucluster.head.openssh import Alias

ROOT = Path(__file__).resolve().parents[3]
_PROXY = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from gpucluster.errors import GpuClusterError
from gpucluster.head import openssh, tunnel
folder, url, published, host = sys.argv[1:]
openssh.Alias(Path(folder)).trust(host, [published])
try:
    tunnel.carry(tunnel.open_tunnel(url, timeout_s=30), 0, 1)
except GpuClusterError as error:
    sys.exit(error.render())
"""


def lead(alias: Alias, head: Head) -> None:
    """Points the alias to this head node with its current host key. The head node accepts the key for a minute."""
    head.push_key(alias.public_key())
    published = " ".join(head.published.split()[:2])
    words = [sys.executable, "-c", _PROXY, str(alias.folder), head.tunnel_url(), published]
    script = alias.folder / "proxy"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o700)
    lines = alias.config(Path("cluster.yaml"), None).splitlines()
    proxy = shlex.quote(str(script)).replace("%", "%%")
    text = [f"  ProxyCommand {proxy} %h" if "ProxyCommand" in line else line for line in lines]
    alias.config_file.write_text("\n".join(text) + "\n")
