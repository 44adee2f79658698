"""The firewall of jobs' ports: real rules between two network namespaces, with stand-ins for Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP

from gpucluster import ports

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces take root")

SYSTEM, ADMIN, ALICE, BOB, ALICES_SUBUID = 990, 1000, 24567, 30001, 165536
HERE, BOBS_NODE, OUTSIDE = "10.0.0.4", "10.0.0.5", "10.9.0.1"
JOBS, SSH, CREDENTIALS, SRUN, NFS, LUSTRE, TUNNEL = 20007, 22, 9911, 61000, 2049, 988, 225
HOME, SAMPLES = ports.NFS, ports.NODE_EXPORTER

WORLD = """
mount -t tmpfs none /run
ip link set lo up
ip link add near type veth peer name far
unshare --net sleep 60 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set far netns $other
ip address add {here}/24 dev near; ip link set near up; ip route add default via {bobs}
nsenter --target $other --net sh -c 'ip link set lo up; ip address add {bobs}/24 dev far
    ip address add {outside}/32 dev far; ip link set far up'
serve() {{ "${{@:2}}" python3 -c '
import select, socket, sys, time
held = []
for port in map(int, sys.argv[1:]):
    for family, kind in ((socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM)):
        held.append(socket.socket(family, kind)); held[-1].bind(("::", port))
        kind == socket.SOCK_STREAM and held[-1].listen(50)
print("ready", flush=True)
while True:
    for one in select.select([each for each in held if each.type == socket.SOCK_DGRAM], [], [])[0]:
        data, sender = one.recvfrom(10); one.sendto(data, sender)
' {ports} >"$1" & }}
mkfifo /run/near /run/far
serve /run/near
read -r _ </run/near
serve /run/far nsenter --target $other --net
read -r _ </run/far
NFS_PORT={home} EXPORTER_PORT={samples}
source {library}
source {step}
job_firewall_rules "$ROLE" {admin} 10.0.0.0/24 | nft -f -
reach() {{ setpriv --reuid "$1" --clear-groups python3 -c '
import socket, sys
kind = socket.SOCK_DGRAM if sys.argv[1] == "udp" else socket.SOCK_STREAM
try:
    where = socket.getaddrinfo(sys.argv[2], int(sys.argv[3]), type=kind)[0]
    with socket.socket(where[0], kind) as one:
        one.settimeout(2); one.connect(where[4])
        if kind == socket.SOCK_DGRAM: one.send(b"x"); one.recv(10)
    print("open")
except OSError as error:
    print("closed")
' "$2" "$3" "$4"; }}
"""


ALONE = ("unshare", "--net", "--mount-proc", "--pid", "--fork", "--kill-child")


def said(script: str, folder: Path, role: str = "compute") -> list[str]:
    world = WORLD.format(
        here=HERE, bobs=BOBS_NODE, outside=OUTSIDE, admin=ADMIN,
        step=BOOTSTRAP / "steps/system/job_firewall.sh", library=BOOTSTRAP / "lib/firewall.sh",
        home=HOME, samples=SAMPLES, ports=f"{JOBS} {SSH} {CREDENTIALS} {SRUN} {NFS} {HOME} {LUSTRE} {TUNNEL} {SAMPLES}",
    )  # fmt: skip
    python = os.path.dirname(os.path.realpath(sys.executable))
    done = subprocess.run(
        ["timeout", "50", *ALONE, "bash", "-euc", world + script],
        capture_output=True, text=True, timeout=60, cwd=folder,
        env={"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:{python}", "ROLE": role},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OPENED = f"nft add element inet gpucluster_jobs nodes '{{ {BOB} . {HERE}, {BOB} . {BOBS_NODE} }}'\n"
OPENED += f"nft add element inet gpucluster_jobs here '{{ {BOB} }}'\n"

LOCAL = [("tcp", HERE), ("tcp", "127.0.0.1"), ("tcp", "127.1.2.3"), ("tcp", "::1"), ("udp", HERE), ("udp", "127.0.0.1")]
REMOTE = [("tcp", BOBS_NODE), ("udp", BOBS_NODE), ("tcp", f"::ffff:{BOBS_NODE}")]


def reached(uid: int, ways: list[tuple[str, str]], port: int) -> str:
    return "".join(f"reach {uid} {kind} {where} {port}\n" for kind, where in ways)


def test_only_a_user_with_a_job_here_reaches_its_ports(tmp_path: Path) -> None:
    ways = [*LOCAL, *REMOTE]
    for uid, answer in {ALICE: "closed", ALICES_SUBUID: "closed", BOB: "open", ADMIN: "open", 0: "open"}.items():
        assert said(OPENED + reached(uid, ways, JOBS), tmp_path) == [answer] * len(ways), uid


LISTENS = """
mkfifo /run/thief
setpriv --reuid ALICE --clear-groups python3 -c '
import socket, time
one = socket.socket(); one.bind(("0.0.0.0", 25999)); one.listen(BACKLOG); print("ready", flush=True); time.sleep(40)
' >/run/thief &
read -r _ </run/thief
connects() { nsenter --target $other --net python3 -c '
import socket
from concurrent.futures import ThreadPoolExecutor
def ask(_):
    try:
        with socket.create_connection(("HERE", 25999), 4): return "open"
    except OSError:
        return "closed"
print(*set(ThreadPoolExecutor(6).map(ask, range(ATTEMPTS))))
'; }
connects
nft add element inet gpucluster_jobs here '{ ALICE }'
sleep 1
ATTEMPTS_LATER
"""


def listens(backlog: int, attempts: int, later: str = "connects") -> str:
    text = LISTENS.replace("ATTEMPTS_LATER", later).replace("ATTEMPTS", str(attempts)).replace("BACKLOG", str(backlog))
    return text.replace("ALICE", str(ALICE)).replace("HERE", HERE)


def test_a_user_without_a_job_here_answers_nobody(tmp_path: Path) -> None:
    """They may listen on the port of a job, whose number is known, before its program does."""
    assert said(listens(50, 1), tmp_path) == ["closed", "open"]
    assert said(listens(50, 1), tmp_path, "head") == ["open", "open"]


@pytest.mark.parametrize("backlog", [0, 1])
def test_a_full_queue_answers_nobody_either(tmp_path: Path, backlog: int) -> None:
    """SYN cookies belong to no socket (tcp_make_synack in net/ipv4/tcp_output.c)."""
    assert said(listens(backlog, 6, later=":"), tmp_path) == ["closed"]


def test_users_reach_what_all_need(tmp_path: Path) -> None:
    needed = reached(ALICE, [*LOCAL, *REMOTE], SSH) + reached(ALICE, [("tcp", "127.0.0.1")], CREDENTIALS)
    needed += reached(ALICE, [("tcp", OUTSIDE)], JOBS)
    assert set(said(needed, tmp_path)) == {"open"}
    assert said(reached(ALICE, [("tcp", BOBS_NODE)], CREDENTIALS), tmp_path) == ["closed"]


def test_a_users_further_uids_reach_no_sshd(tmp_path: Path) -> None:
    """sshd's places are counted for each of them: subuid(5) has 65536."""
    assert set(said(reached(ALICES_SUBUID, [*LOCAL[:4], *REMOTE[:1]], SSH), tmp_path)) == {"closed"}


@pytest.mark.parametrize("role", ["head", "compute"])
def test_no_user_speaks_to_a_file_server_as_somebody_else(tmp_path: Path, role: str) -> None:
    """NFS and Lustre believe the uid that a client names. EFS also believes clients with a port above 1023. And no user
    reads the samples of others' jobs, which Prometheus does, a user of the system."""
    ways = [(kind, where) for kind, where in [*LOCAL, *REMOTE, ("tcp", OUTSIDE)] if kind == "tcp"]
    local = [(kind, where) for kind, where in LOCAL if kind == "tcp"]
    for uid, answer in {BOB: "closed", ALICES_SUBUID: "closed", ADMIN: "open", SYSTEM: "open", 0: "open"}.items():
        ask = "".join(reached(uid, ways, port) for port in (NFS, HOME, LUSTRE, SAMPLES)) + reached(uid, local, TUNNEL)
        assert said(OPENED + ask, tmp_path, role) == [answer] * (4 * len(ways) + len(local)), uid


def test_no_user_loads_a_protocol_whose_connections_are_the_kernels() -> None:
    """AF_SMC connects with a socket of the kernel's own, which has no uid (smc_create in net/smc/af_smc.c)."""
    put = 'put_file() { echo "$@"; cat; }'
    text = f'{put}\nsource "{BOOTSTRAP}/steps/system/job_firewall.sh"\nno_kernel_clients'
    done = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, check=True)
    file, *lines = done.stdout.splitlines()
    assert file.startswith("/etc/modprobe.d/") and file.split()[0].endswith(".conf")
    assert {"install smc /bin/false", "install rxrpc /bin/false"} <= set(lines)


OPENS_MANY = """
setpriv --reuid {uid} --clear-groups python3 -c '
import socket
held, refused = [], 0
for each in range(60):
    where = "127.0.0.%d" % (each + 1) if {local} else "{there}"
    try:
        held.append(socket.create_connection((where, 22), 2))
    except ConnectionRefusedError:
        refused += 1
print(40 <= len(held) <= 45, len(held) + refused)
'
"""


@pytest.mark.parametrize("role", ["head", "compute"])
@pytest.mark.parametrize("local", [True, False])
def test_a_user_takes_few_of_sshds_places(tmp_path: Path, role: str, local: bool) -> None:
    """Over loopback each address would count for itself in PerSourceMaxStartups."""
    where = "127.0.0.1" if local else BOBS_NODE
    script = OPENS_MANY.format(uid=ALICE, local=local, there=BOBS_NODE)
    others = (
        reached(ALICE, [("tcp", where)], SSH) + reached(BOB, [("tcp", where)], SSH) + reached(0, [("tcp", where)], SSH)
    )
    assert said(script + others, tmp_path, role) == ["True 60", "closed", "open", "open"]


def test_an_srun_on_the_head_node_is_answered(tmp_path: Path) -> None:
    ask = reached(ALICE, [("tcp", BOBS_NODE)], SRUN) + reached(ALICE, [("tcp", BOBS_NODE)], JOBS)
    assert said(ask, tmp_path) == ["closed", "closed"]
    assert said(f"nft add element inet gpucluster_jobs head '{{ {BOBS_NODE} }}'\n" + ask, tmp_path) == [
        "open",
        "closed",
    ]


def test_users_of_the_head_node_reach_only_their_own_machine(tmp_path: Path) -> None:
    ask = reached(ALICE, LOCAL, JOBS) + reached(ALICE, REMOTE, JOBS)
    assert said(ask, tmp_path, "head") == ["open"] * len(LOCAL) + ["closed"] * len(REMOTE)


SLURM = {
    "getent": """case $1 in
        group) [ -e users ] ;;
        ahostsv4)
            echo "${@:2}" >>resolved
            for name in "${@:2}"; do
                case $name in
                    head.c.internal) echo "10.0.0.9 STREAM head" ;;
                    train-1.c.internal) echo "10.0.0.4 STREAM"; echo "10.0.0.4 DGRAM" ;;
                    train-2.c.internal) echo "10.0.0.5 STREAM" ;;
                    *) lost=yes ;;
                esac
            done
            [ -z "${lost-}" ] || exit 2 ;;
    esac""",
    "hostname": "echo train-1",
    "id": f"echo {ADMIN}",
    # what slurmctld packs: all jobs, or those of one user
    "squeue": """echo "$*" >>asked
        case "$*" in *--nodelist*|*,*--user*) exit 1 ;; esac
        uid=$(grep -o -e '--user=[0-9]*' <<<"$*" | cut -d = -f 2)
        grep "^$uid " listed | cut -d ' ' -f 2-; exit 0""",
    "sinfo": "exit 1",
    "scontrol": """[ "$1 $2" = "show hostnames" ] || exit 1
        echo "$3" >>taken_apart
        sed 's/train-\\[1-2\\]/train-1,train-2/' <<<"$3" | tr , '\\n'""",
    "sleep": "exec /bin/sleep ${FAST:-$1}",
}
"""Stand-ins. `listed`: a line UID JOB NODES for each job that has its nodes."""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Defines `before UID JOB` and `after UID JOB`, which run the program on train-1 with stand-ins for Slurm."""
    for name, text in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "users").touch()
    # 30001 has two jobs, of which one is on another node too; 24567's job runs elsewhere
    (tmp_path / "listed").write_text(f"{BOB} 7 train-[1-2]\n{BOB} 8 train-1\n{ALICE} 9 train-2\n")
    (tmp_path / "cluster.sh").write_text("readonly ZONE=c.internal JOB_USER=ubuntu\n")
    (tmp_path / "lib").symlink_to(BOOTSTRAP / "lib")
    text = (BOOTSTRAP / "programs/bin/job-firewall").read_text()
    copy = tmp_path / "job-firewall"
    copy.write_text(text.replace("/opt/gpucluster/bundle", str(tmp_path)))
    run = "bash job-firewall"
    return f"""
        export FAST=0.01
        before() {{ SLURM_JOB_UID=$1 SLURM_JOB_ID=$2 {run} before; }}
        after() {{ SLURM_JOB_UID=$1 SLURM_JOB_ID=$2 {run} after; }}
        again() {{ {run} again; }}
        ended() {{ sed -i "/ $1 /d" listed; }}
    """


SHOW = "nft list table inet gpucluster_jobs | sed -n '/elements/,/}/p' | tr -s '\\t\\n ' ' '\n"


def test_the_sets_are_what_slurm_says(program: str, tmp_path: Path) -> None:
    (filled,) = said(f"{program}\nbefore {BOB} 7\n{SHOW}", tmp_path)
    assert "10.0.0.9" in filled
    for element in ("30001 . 10.0.0.4", "30001 . 10.0.0.5", "{ 30001 }"):
        assert element in filled
    assert "24567" not in filled


def test_slurm_packs_only_the_jobs_of_users_here(program: str, tmp_path: Path) -> None:
    """At 1,000 nodes, a list of all jobs and nodes for each node of each job is more than slurmctld can answer."""
    assert said(f"{program}\nbefore {BOB} 7; before {ALICE} 9; before {ADMIN} 10; before 0 11", tmp_path) == []
    asked = (tmp_path / "asked").read_text().splitlines()
    assert all("--user=30001 " in each or "--user=24567 " in each for each in asked)
    # alice's job 9 is not here, and is forgotten; bob's is asked for again with each job that starts here
    assert [each.split("--user=")[1].split()[0] for each in asked] == ["30001", "24567", "30001", "30001", "30001"]


def test_nobody_asks_slurm_after_the_last_job_here(program: str, tmp_path: Path) -> None:
    ended = f"ended 7; rm asked; after {BOB} 7; [ ! -e asked ] || cat asked; ls -A /run/gpucluster-firewall"
    ask = reached(BOB, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    assert said(f"{program}\nbefore {BOB} 7\n{ask}{ended}\n{ask}", tmp_path) == ["open", "open", "closed", "closed"]


def test_a_user_whose_other_job_goes_on_here_keeps_its_nodes(program: str, tmp_path: Path) -> None:
    ask = reached(BOB, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    steps = f"before {BOB} 7; before {BOB} 8; ended 8; after {BOB} 8\n{ask}ended 7; after {BOB} 7\n{ask}"
    assert said(f"{program}\n{steps}", tmp_path) == ["open", "open", "closed", "closed"]


def test_the_nodes_of_a_job_that_ends_elsewhere_are_closed_within_a_minute(program: str, tmp_path: Path) -> None:
    ask = reached(BOB, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    elsewhere = f"echo '{BOB} 12 train-2' >>listed; sed -i 's/ 7 train-.*/ 7 train-1/' listed\n"
    steps = f"{elsewhere}before {BOB} 7\n{ask}ended 12; again\n{ask}"
    assert said(f"{program}\n{steps}", tmp_path) == ["open", "open", "closed", "open"]


def test_a_node_without_jobs_asks_for_nothing(program: str, tmp_path: Path) -> None:
    assert said(f"{program}\nagain", tmp_path) == []
    assert not (tmp_path / "asked").exists()


def test_hundreds_of_jobs_here_take_their_lists_apart_once(program: str, tmp_path: Path) -> None:
    """Each job's prolog waits for the others', and one that waits too long drains the node."""
    many = f'for job in {{101..400}}; do echo "{BOB} $job train-1" >>listed; done; before {BOB} 7\n'
    more = (
        f"for job in {{101..400}}; do echo {BOB} >/run/gpucluster-firewall/$job; done; rm taken_apart; before {BOB} 8"
    )
    assert said(f"{program}\n{many}{more}\nls /run/gpucluster-firewall | wc -l", tmp_path) == ["302"]
    assert len((tmp_path / "taken_apart").read_text().splitlines()) == 3


def test_an_ended_jobs_ports_are_closed_while_slurm_does_not_answer(program: str, tmp_path: Path) -> None:
    """The epilog's failure would drain the node."""
    ask = reached(BOB, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    away = f"printf '#!/bin/bash\\nexit 1\\n' >{tmp_path}/squeue; after {BOB} 7 2>/dev/null\n"
    steps = f"before {BOB} 7; before {ALICE} 9\n{ask}{away}{ask}"
    assert said(f"{program}\n{steps}", tmp_path) == ["open", "open", "closed", "closed"]


def test_an_ended_job_is_forgotten_although_its_epilog_failed(program: str, tmp_path: Path) -> None:
    """One job's epilog never ran, and another's filled the sets before it failed."""
    ask = reached(ALICE, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    alices = f"echo '{ALICE} 6 train-[1-2]' >>listed; before {ALICE} 6\n"
    steps = f"{alices}{ask}ended 6; before {BOB} 7\n{ask}ls /run/gpucluster-firewall"
    assert said(f"{program}\n{steps}", tmp_path) == ["open", "open", "closed", "closed", "7"]


def test_a_job_that_runs_again_elsewhere_is_not_here(program: str, tmp_path: Path) -> None:
    """Its number is the same: its epilog here never ran."""
    moved = f"echo '{ALICE} 6 train-1' >>listed; before {ALICE} 6; ended 6; echo '{ALICE} 6 train-2' >>listed\n"
    ask = reached(ALICE, [("tcp", BOBS_NODE), ("tcp", "127.0.0.1")], JOBS)
    assert said(f"{program}\n{moved}before {BOB} 7\n{ask}", tmp_path) == ["closed", "closed"]


def test_nothing_is_changed_while_slurm_does_not_answer(program: str, tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/bash\nexit 1\n")
    changed = said(OPENED + f"{program}\nbefore {BOB} 7 2>&1 && exit 1\n" + reached(BOB, REMOTE, JOBS), tmp_path)
    assert "no answer: squeue" in changed[0] and changed[1:] == ["open"] * len(REMOTE)


def test_a_name_that_does_not_resolve_at_once_is_asked_for_again(program: str, tmp_path: Path) -> None:
    for name, address in {"head": "10.0.0.9", "train-2": f"{BOB} . {BOBS_NODE}"}.items():
        once = f'case "$*" in *{name}.*) [ -e {name}.asked ] || {{ : >{name}.asked; exit 2; }} ;; esac\n'
        (tmp_path / "getent").write_text(f"#!/bin/bash\n{once}{SLURM['getent']}\n")
        (filled,) = said(f"{program}\nbefore {BOB} 7\n{SHOW}", tmp_path)
        assert address in filled and (tmp_path / f"{name}.asked").exists()


def test_a_node_that_has_no_address_any_more_costs_no_other_node(program: str, tmp_path: Path) -> None:
    lost = f"echo '{BOB} 12 train-3' >>listed; before {BOB} 7 2>&1\n"
    told, filled = said(f"{program}\n{lost}{SHOW}", tmp_path)
    assert "train-3.c.internal" in told
    assert "30001 . 10.0.0.4" in filled and "30001 . 10.0.0.5" in filled


def test_no_user_can_hold_the_lock_or_add_a_job(program: str, tmp_path: Path) -> None:
    stat = "stat -c %a:%U /run/gpucluster-firewall.lock /run/gpucluster-firewall"
    assert said(f"{program}\nbefore {BOB} 7; {stat}", tmp_path) == ["600:root", "700:root"]


def test_a_cluster_without_users_asks_slurm_nothing(program: str, tmp_path: Path) -> None:
    (tmp_path / "users").unlink()
    assert said(f"{program}\nbefore {BOB} 7; after {BOB} 7", tmp_path) == []
    assert not (tmp_path / "asked").exists()
