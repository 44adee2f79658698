"""A user does not stop root's programs, and does not answer in their place: locks, and the port of credentials."""

from __future__ import annotations

import re

from bed import Bed

HOLD = r"""
for file in $(find /run /var/lib/gpucluster /tmp -type f -readable 2>/dev/null); do
    case $file in /run/user/*) continue ;; esac
    setsid flock "$file" sleep 240 >/dev/null 2>&1 </dev/null &
done
sleep 1
find /run /var/lib/gpucluster \( -name '*lock' -o -path '*/locks/*' \) -user root -type f -readable 2>/dev/null
true
"""
SQUAT = r"""
import socket, sys, time
until, got = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket() as taking:
            taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taking.bind((host, 9911))
                taking.listen()
                got += 1
            except OSError:
                pass
print("got", got)
"""
CREDENTIALS = "curl -s -o /dev/null -w '%{http_code}' --max-time 20 http://127.0.0.1:9911/credentials"
JOB = "sudo -u bob srun --nodes=1 --job-name=victim hostname"


def test_nobody_but_root_holds_a_lock_of_root(people: Bed) -> None:
    """alice holds the lock of every file that she may open, on the head node and on a compute node. Meanwhile a node is
    launched, the epilog of bob's job ends, and head.sh runs as for `up`."""
    node = people.ssh("sh", "-c", JOB, timeout_s=240).strip()
    for where in ([], ["ssh", "-o", "BatchMode=yes", node]):
        words = [*where, f"bash -c '{HOLD}'"] if where else ["bash", "-c", HOLD]
        done = people.of("alice").gpucluster("ssh", "--", *words)
        assert done.stdout.strip() == "", f"alice opens {done.stdout}"
    again = JOB.replace("--nodes=1", f"--nodelist={node}")
    assert people.ssh("sh", "-c", again, timeout_s=120).strip() == node
    wait = f"for _ in $(seq 60); do case $(sinfo -h -n {node} -o %T) in idle*) exit 0;; esac; sleep 1; done; exit 1"
    people.ssh("sh", "-c", wait, timeout_s=90)
    two = people.ssh("sh", "-c", "sudo -u bob srun --nodes=2 hostname", timeout_s=240).split()
    assert len(two) == 2
    people.ssh("sh", "-c", "sudo timeout 200 bash /opt/gpucluster/bundle/head.sh >/dev/null 2>&1", timeout_s=220)
    people.ssh("sudo", "pkill", "-u", "alice", "sleep")


def test_a_user_does_not_take_the_port_of_credentials_while_the_service_restarts(people: Bed) -> None:
    squat = f"python3 -c '{SQUAT}' 15 >/tmp/squat.out 2>&1"
    people.ssh("sh", "-c", f"sudo -u alice setsid sh -c {_quoted(squat)} >/dev/null 2>&1 </dev/null & true")
    for _ in range(3):
        answer = people.ssh("sh", "-c", f"sudo systemctl restart gpucluster-credentials; {CREDENTIALS}")
        assert answer in ("200", "404"), "the service answers, if only that the cluster has no role for jobs"
    kill = "sudo systemctl kill --signal=KILL gpucluster-credentials"
    assert people.ssh("sh", "-c", f"{kill}; sleep 1; {CREDENTIALS}") in ("200", "404")
    assert re.fullmatch(r"got 0\s*", people.ssh("sh", "-c", "sleep 12; cat /tmp/squat.out; sudo rm /tmp/squat.out"))


def test_a_users_sessions_have_a_part_of_the_head(people: Bed) -> None:
    shown = people.ssh("systemctl", "cat", "user-1000.slice")
    assert "TasksMax=4096" in shown.splitlines()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
