"""The ports of a job: its user and the administrator reach them on all its nodes, and another user never does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from bed import Bed, wait_for

PORT = 25555
PROBE = f"""
import socket, sys
for where in sys.argv[1:]:
    try:
        socket.create_connection((where, {PORT}), 5).close()
        print(where, "open")
    except OSError:
        print(where, "closed")
"""
SERVES = f"""
import os, pathlib, socket, time
folder = pathlib.Path(os.environ["GPUCLUSTER_JOB_DIR"])
if os.environ["RANK"] == "0":
    server = socket.create_server(("", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True)
    (folder / "serves").touch()
    server.settimeout(0.5)
    while not (folder / "end").exists():
        try:
            print("asked by", server.accept()[1][0].rpartition(":")[2], flush=True)
        except TimeoutError:
            pass
elif (os.environ["NODE_RANK"], os.environ["LOCAL_RANK"]) == ("1", "0"):
    while not (folder / "serves").exists():
        time.sleep(0.2)
    socket.create_connection((os.environ["MASTER_ADDR"], {PORT}), 5)
    (folder / "met").touch()
while not (folder / "end").exists():
    time.sleep(0.5)
"""


@dataclass
class Serving:
    """A job of bob on two nodes, whose ranks have met."""

    bed: Bed
    job_id: str
    node: str
    address: str
    folder: str

    def end(self) -> None:
        self.bed.ssh("sudo", "touch", f"{self.folder}/end")


def ran(bed: Bed, *words: str) -> str:
    done = bed.gpucluster("ssh", "--", *words)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def submitted(bed: Bed, *words: str) -> str:
    done = bed.submit("--launcher", "srun", *words)
    assert done.exit_code == 0, done.told
    return str(done.last["job_id"])


def field(bed: Bed, job_id: str, name: str) -> str:
    return bed.ssh("squeue", "--noheader", f"--jobs={job_id}", f"--format={name}").strip()


def address(bed: Bed, node: str) -> str:
    return bed.ssh("sinfo", "--noheader", "--Node", f"--nodes={node}", "--format=%o").split()[0]


@pytest.fixture(scope="module")
def serving(people: Bed) -> Iterator[Serving]:
    bob = people.of("bob")
    job_id = submitted(bob, "--nodes", "2", "--", "python", "-c", SERVES)
    folder = f"/home/bob/jobs/by-id/{job_id}"
    wait_for("bob's ranks", lambda: "met" in people.ssh("sh", "-c", f"sudo ls {folder} 2>/dev/null || :").split(), 240)
    nodes = people.ssh("scontrol", "show", "hostnames", field(people, job_id, "%N")).split()
    yield Serving(people, job_id, nodes[0], address(people, nodes[0]), folder)


def test_another_user_reaches_no_port_of_the_job(serving: Serving) -> None:
    people, alice = serving.bed, serving.bed.of("alice")
    ran(alice, "sh", "-c", f"printf %s {shlex.quote(PROBE)} >probe.py")
    here = (serving.address, "127.0.0.1", "127.0.0.2", "::1")
    closed = [f"{each} closed" for each in here]
    # from the head node, and on the job's own node
    assert ran(alice, "python3", "probe.py", serving.address).splitlines() == closed[:1]
    assert ran(alice, "ssh", serving.node, f"python3 probe.py {' '.join(here)}").splitlines() == closed
    # from a node of her own, where she reaches herself
    asks = f"[ $LOCAL_RANK = 0 ] || exit 0; python3 ~/probe.py {serving.address}; python3 -m http.server {PORT} & "
    asks += "sleep 3; python3 ~/probe.py ::1 127.0.0.1; kill $!"
    done = alice.submit("--launcher", "srun", "--nodes", "1", "--follow", "--", "sh", "-c", asks)
    assert f"{serving.address} closed" in "\n".join(done.log)
    assert "127.0.0.1 open" in "\n".join(done.log)
    # a tunnel ends in her own process on the node
    tunnel = f"timeout 20 ssh -L 5000:localhost:{PORT} {serving.node} sleep 10 & sleep 4; "
    ran(alice, "sh", "-c", tunnel + "curl -sS -m 4 telnet://localhost:5000 </dev/null 2>&1 || :")
    assert field(people, serving.job_id, "%T") == "RUNNING"
    log = people.ssh("sudo", "cat", f"{serving.folder}/log.txt")
    assert log.count("asked by") == 1


def test_the_administrator_and_srun_reach_the_nodes(serving: Serving) -> None:
    people = serving.bed
    probe = ("python3", "-c", PROBE, serving.address)
    assert people.ssh(*probe).split() == [serving.address, "open"]
    asked = ("timeout", "60", "srun", "--nodes=1", "--partition=train", "--immediate=50", "sh", "-c", "cat; id -un")
    assert ran(people.of("alice"), "sh", "-c", f"echo given | {shlex.join(asked)}").split() == ["given", "alice"]
    status = people.gpucluster("status", "--json")
    assert status.returncode == 0 and json.loads(status.stdout)


def test_after_the_job_nobody_has_an_open_port(serving: Serving) -> None:
    people = serving.bed
    table = ("ssh", serving.node, "sudo", "nft", "list", "table", "inet", "gpucluster_jobs")
    bob = ran(people.of("bob"), "id", "-u").strip()
    name = people.ssh("ssh", serving.node, "getent", "passwd", bob).split(":")[0]
    assert name in people.ssh(*table) or bob in people.ssh(*table)
    serving.end()
    wait_for("the end", lambda: field(people, serving.job_id, "%T") in ("", "COMPLETED"), 60)
    left = people.ssh(*table)
    assert bob not in left and f"{name} ." not in left


FILE_SERVERS = {"/home": 296, "NFS": 2049, "Lustre": 988, "a tunnel to EFS": 225}
REACHES = """
import socket, sys
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        print("open")
    except OSError:
        print("closed")
"""


def test_no_user_names_another_uid_to_a_file_server(people: Bed) -> None:
    """These servers believe the uid that a client names. The local cloud has none: root listens in their place."""
    ports = [str(port) for port in FILE_SERVERS.values()]
    for port in ports:
        people.ssh("sudo", "systemd-run", "--quiet", f"--unit=listens-{port}", "python3", "-m", "http.server", port)
    try:
        ask = shlex.join(["python3", "-c", REACHES, *ports])
        wait_for("the listeners", lambda: people.ssh("sh", "-c", ask).split() == ["open"] * len(ports), 30)
        assert ran(people.of("alice"), "sh", "-c", ask).split() == ["closed"] * len(ports)
        assert ran(people.of("alice"), "sh", "-c", "touch ~/mine && cat ~/mine && id -un").split() == ["alice"]
    finally:
        people.ssh("sudo", "systemctl", "stop", *(f"listens-{port}" for port in ports))


MANY = 150
RECEIVED = """
received() { cat /sys/class/net/[!l]*/statistics/rx_bytes | awk "{ sum += \\$1 } END { print sum }"; }
between() { before=$(received); "$@" >/dev/null; echo $(($(received) - before)); }
"""


def test_a_node_does_not_ask_for_the_jobs_of_others(people: Bed) -> None:
    """A node asks before each job. If slurmctld had to send it all jobs, large clusters would stop."""
    alice = people.of("alice")
    ran(alice, "sh", "-c", f"for each in $(seq {MANY}); do sbatch --quiet --hold --partition=train --wrap=true; done")
    try:
        bob = people.ssh("id", "-u", "bob").strip()
        job = people.ssh(
            "sudo", "-u", "bob", "sbatch", "--parsable", "--partition=train", "--chdir=/tmp", "--wrap=sleep 300"
        )
        wait_for("bob's job", lambda: field(people, job.strip(), "%T") == "RUNNING", 240)
        node = field(people, job.strip(), "%N")
        program = f"env SLURM_JOB_ID={job.strip()} SLURM_JOB_UID={bob} /opt/gpucluster/bin/job-firewall before"
        asks = f"{RECEIVED}between squeue --all; between {program}"
        all_jobs, asked = (int(each) for each in people.ssh("ssh", node, f"sudo bash -c {shlex.quote(asks)}").split())
        print("bytes of all jobs", all_jobs, "and of the firewall's question", asked)
        assert all_jobs > 300 * MANY and asked < all_jobs / 5
    finally:
        people.ssh("sudo", "scancel", "--user=alice")
        people.ssh("sudo", "scancel", "--user=bob")
