"""A user who holds connections to an sshd open keeps nobody else from logging in."""

from __future__ import annotations

import shlex

import pytest
from bed import Bed

HOLD = r"""
import socket, sys, time
held = []
for _ in range(300):
    try:
        held.append(socket.create_connection((sys.argv[1], 22), 5))
    except OSError:
        time.sleep(0.02)
print("held", len(held), flush=True)
time.sleep(15)
"""


@pytest.mark.parametrize("target", ["the head node", "a compute node"])
def test_silent_connections_take_few_places(people: Bed, target: str) -> None:
    node = people.ssh("sudo", "-u", "bob", "srun", "--nodes=1", "hostname", timeout_s=240).strip()
    where = node if target == "a compute node" else "head"
    hold = f"timeout 60 python3 -c {shlex.quote(HOLD)} {where} >/tmp/held.out 2>&1"
    people.ssh("sh", "-c", f"sudo -u alice setsid bash -c {shlex.quote(hold)} >/dev/null 2>&1 </dev/null & true")
    people.ssh("sh", "-c", "for _ in $(seq 40); do grep -q held /tmp/held.out && exit 0; sleep 0.5; done; exit 1")
    assert int(people.ssh("cat", "/tmp/held.out").split()[1]) < 100
    done = people.of("bob").gpucluster("ssh", "--", "ssh", "-o", "BatchMode=yes", where, "id", "-un")
    assert done.stdout.strip() == "bob", done.stderr
    settings = people.ssh("ssh", where, "sudo", "sshd", "-T").splitlines()
    assert {"maxstartups 200:30:400", "persourcemaxstartups 100", "logingracetime 30"} <= set(settings)
    people.ssh("sudo", "pkill", "-u", "alice", "python3")
    people.ssh("sudo", "rm", "/tmp/held.out")
