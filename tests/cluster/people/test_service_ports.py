"""No user takes the port of a service that all need, or answers in its place."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from bed import Bed

FIRST_OF_USERS = 1024
"""net.ipv4.ip_unprivileged_port_start."""
KEPT = {9911}
"""systemd has this port as long as the machine runs: the credentials of jobs."""

HEAD: tuple[str, ...] = ()
SQUAT = r"""
import socket, sys, time
until, got = time.monotonic() + float(sys.argv[1]), set()
ports = [int(port) for port in sys.argv[2:]]
while time.monotonic() < until:
    for port in ports:
        for host in ("127.0.0.1", "0.0.0.0", "::"):
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taking:
                taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                try:
                    taking.bind((host, port))
                    taking.listen()
                    got.add(port)
                except OSError:
                    pass
print("got", sorted(got))
"""


class Listener(NamedTuple):
    port: int
    program: str


def listeners(people: Bed, *where: str) -> set[Listener]:
    """`sudo ss -ltnupH`: netid, state, two queues, the local address, the peer's, users:(("slurmctld",pid=1,fd=6))."""
    found = set()
    for line in people.ssh(*where, "sudo", "ss", "-ltnupH").splitlines():
        columns = line.split()
        program = re.search(r'\(\("([^"]+)"', line)
        found.add(Listener(int(columns[4].rpartition(":")[2]), program[1] if program else "the kernel"))
    return found


def test_services_that_all_need_listen_where_no_user_can(people: Bed) -> None:
    node = people.ssh("sudo", "-u", "bob", "srun", "--nodes=1", "hostname", timeout_s=240).strip()
    head, compute = listeners(people), listeners(people, "ssh", node)
    assert {each.program for each in head} >= {"slurmctld", "slurmdbd", "sshd"}
    assert {each.program for each in compute} >= {"slurmd", "sshd"}
    assert {each for each in head | compute if each.port >= FIRST_OF_USERS and each.port not in KEPT} == set()


def test_slurms_daemons_restart_while_a_user_wants_their_ports(people: Bed) -> None:
    """The victim's job runs on, and the administrator's verbs work."""
    node = people.ssh("sudo", "-u", "bob", "srun", "--nodes=1", "hostname", timeout_s=240).strip()
    wrapped = ("--wrap", "sleep 25")
    job = people.ssh("sudo", "-u", "bob", "sbatch", "--parsable", "-D", "/tmp", "-w", node, *wrapped).strip()
    ports = {each.port for each in listeners(people) if each.program.startswith("slurm")}
    ports |= {each.port for each in listeners(people, "ssh", node) if each.program == "slurmd"}
    assert len(ports) == 3
    for where in HEAD, ("ssh", node):
        _wants(people, ports, where)
    for _ in range(2):
        people.ssh("sudo", "systemctl", "restart", "slurmdbd", "slurmctld")
        people.ssh("ssh", node, "sudo", "systemctl", "restart", "slurmd")
    assert people.gpucluster("status").returncode == 0
    assert people.ssh("sudo", "-u", "bob", "srun", "--nodes=1", "hostname", timeout_s=120).strip()
    people.ssh("sh", "-c", f"for _ in $(seq 60); do squeue -h -j {job} | grep -q . || exit 0; sleep 1; done; exit 1")
    assert "COMPLETED" in people.ssh("scontrol", "show", "job", job)
    for where in HEAD, ("ssh", node):
        assert people.ssh(*where, "cat", "/tmp/taken.out").strip() == "got []"
        people.ssh(*where, "sudo", "rm", "/tmp/taken.out")


def _wants(people: Bed, ports: set[int], where: tuple[str, ...]) -> None:
    """alice tries to take them there, for 20 s. Does not wait."""
    attempt = f"python3 -c {shlex.quote(SQUAT)} 20 {' '.join(map(str, ports))} >/tmp/taken.out 2>&1"
    command = f"sudo -u alice setsid bash -c {shlex.quote(attempt)} >/dev/null 2>&1 </dev/null &"
    if where:
        people.ssh(*where, command)
    else:
        people.ssh("sh", "-c", command)
