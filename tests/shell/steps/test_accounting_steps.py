"""The steps of Slurm's accounting, with stand-ins for AWS and for sacctmgr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from signed_aws import SignedAws
from test_steps import BOOTSTRAP, REPORT, Machine, source_of

PASSWORD = "topsecret"
SSM = '{"host": "db.example", "port": "3306", "user": "slurm", "secret_arn": "arn:x", "ca_url": "https://x/ca.pem"}'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    for name in ("accounting", "database", "slurmdbd"):
        text = source_of(name).read_text()
        for folder in ("/home/gpucluster", "/etc/slurm"):
            text = text.replace(folder, f"{tmp_path}{folder}").replace("$DATA/", f"{tmp_path}/home/gpucluster/")
        found.step(name, text)
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "home/gpucluster/slurm-state").mkdir(parents=True)
    return found


def test_the_password_of_the_database_is_no_argument_of_any_command(machine: Machine, aws: SignedAws) -> None:
    (machine.root / "bundle/slurm").mkdir()
    (machine.root / "bundle/slurm/slurmdbd.conf").write_text("StorageLoc=slurm_acct_db\n")
    aws.parameters["/x/accounting"] = SSM
    aws.secrets["arn:x"] = json.dumps({"username": "slurm", "password": PASSWORD})
    (machine.root / "bundle/gpucluster_node").symlink_to(BOOTSTRAP / "gpucluster_node")
    machine.command("curl", 'while [ "$1" != -o ]; do shift; done; echo PEM >"$2"')
    machine.command("python3", f'exec {sys.executable} "$@"')
    script = "\n".join(f"export {name}={value}" for name, value in aws.environment.items())
    done = machine.run(
        f"{script}\nACCOUNTING=rds SSM_PATH=/x/\nslurmdbd_conf",
        *("runner", "files", "services", "aws_api", "parameters", "slurmdbd"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "StorageLoc=slurm_acct_db",
        "StorageHost=db.example",
        "StoragePort=3306",
        "StorageUser=slurm",
        f"StoragePass={PASSWORD}",
        f"StorageParameters=SSL_CA={machine.root}/etc/slurm/rds-ca.pem",
    ]
    assert machine.calls()
    assert not [call for call in machine.calls() if PASSWORD in call]


@pytest.mark.parametrize(("before", "kept"), [(None, False), ("db.other", False), ("localhost", True)])
def test_the_cluster_id_of_another_database_is_forgotten(machine: Machine, before: str | None, kept: bool) -> None:
    home = machine.root / "home/gpucluster"
    (home / "slurm-state/clustername").write_text("x|1\n")
    (machine.root / "etc/slurm/slurmdbd.conf").write_text("StorageHost=localhost\n")
    if before:
        (home / "accounting").write_text(f"{before}\n")
    machine.command("sacctmgr", "case $* in *list*) echo gpucluster ;; esac")
    done = machine.run(
        "ACCOUNTING=local CLUSTER=GpuCluster\nstep_accounting", "runner", "files", "services", "database", "accounting"
    )
    assert done.returncode == 0, done.stderr
    assert (home / "slurm-state/clustername").exists() is kept
    assert not [call for call in machine.calls() if "add cluster" in call]


def test_a_new_cluster_is_added_to_the_database(machine: Machine) -> None:
    (machine.root / "etc/slurm/slurmdbd.conf").write_text("StorageHost=localhost\n")
    machine.command("sacctmgr")
    done = machine.run(
        "ACCOUNTING=local CLUSTER=GpuCluster\nstep_accounting", "runner", "files", "services", "database", "accounting"
    )
    assert done.returncode == 0, done.stderr
    assert "sacctmgr -Q -i add cluster gpucluster" in machine.calls()


@pytest.mark.parametrize(
    ("state", "restarts", "waits"),
    [("activating", 0, True), ("activating", 1, True), ("activating", 2, False), ("failed", 0, False)],
)
def test_the_boot_waits_while_slurmdbd_is_restarted_twice(
    machine: Machine, state: str, restarts: int, waits: bool
) -> None:
    """With MariaDB Connector/C 3.4.10 slurmdbd ends once, after it has created its database."""
    machine.command("sacctmgr", f'[ "$(grep -c "^sacctmgr " "{machine.calls_file}")" -gt 1 ] && echo gpucluster')
    # both properties in one call, in systemd's own order (`systemctl show --property=ActiveState,NRestarts`)
    shown = (
        f"case $* in *=ActiveState,NRestarts*) echo NRestarts={restarts}; echo ActiveState={state} ;; *) exit 3 ;; esac"
    )
    machine.command("systemctl", shown)
    machine.command("journalctl", "echo 'slurmdbd: fatal: no such luck'")
    done = machine.run("CLUSTER=GpuCluster\nwait_for_accounting", "runner", "services", "database", "accounting")
    assert (done.returncode, done.stdout) == ((0, "gpucluster\n") if waits else (1, "")), done.stderr
    assert waits or "slurmdbd does not start: slurmdbd: fatal: no such luck" in done.stderr


@pytest.mark.parametrize("ours", [True, False])
def test_a_role_stops_only_services_that_it_started(machine: Machine, ours: bool) -> None:
    machine.command("systemctl")
    started = machine.root / "var/started"
    started.mkdir(parents=True)
    if ours:
        (started / "mariadb").touch()
    done = machine.run("service_down mariadb", "runner", "services")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == (["systemctl --quiet disable --now mariadb"] if ours else [])
    assert not (started / "mariadb").exists()


USERS = """\
ada 24567 fairshare=3 maxjobs=-1 grptres=gres/gpu=-1 ssh-ed25519 AAAA
ben 30001 fairshare=1 maxjobs=2 grptres=gres/gpu=8
"""


def test_users_whom_slurm_does_not_know_are_added(machine: Machine) -> None:
    """`-P` prints a line for the account itself, and one for each user in it."""
    (machine.root / "bundle/users").write_text(USERS)
    machine.command("sacctmgr", "case $* in *association*) printf 'users|\\nusers|ubuntu\\nusers|ada\\n' ;; esac")
    done = machine.run("CLUSTER=Mine JOB_USER=ubuntu\nslurm_users", "runner", "files", "database", "accounting")
    assert done.returncode == 0, done.stderr
    assert machine.calls()[1:] == [
        "sacctmgr -Q -i add user ben account=users cluster=mine",
        "sacctmgr -Q -i modify user where name=ubuntu set adminlevel=Admin",
    ]


def test_the_first_users_come_with_their_account(machine: Machine) -> None:
    (machine.root / "bundle/users").write_text(USERS)
    machine.command("sacctmgr")
    done = machine.run("CLUSTER=Mine JOB_USER=ubuntu\nslurm_users", "runner", "files", "database", "accounting")
    assert done.returncode == 0, done.stderr
    added = [call for call in machine.calls() if " add " in call]
    assert added[0] == "sacctmgr -Q -i add account users cluster=mine"
    assert [call.split()[5] for call in added[1:]] == ["ubuntu", "ada", "ben"]


GPUS_KNOWN = "*'list tres'*) printf 'cpu|\\nmem|\\ngres|gpu\\n' ;;"
"""`sacctmgr -n -P list tres format=type,name` of a Slurm whose slurm.conf has AccountingStorageTRES=gres/gpu."""
UNKNOWN_TRES = """sacctmgr: error: slurmdb_format_tres_str: no TRES known by type gres/gpu
 Unknown option: grptres=gres/gpu=1
 Use keyword 'where' to modify condition
"""
"""A head node's console; Slurm 23.11, slurmdb_defs.c and sacctmgr/user_functions.c."""


def limits(machine: Machine, sacctmgr: str) -> subprocess.CompletedProcess[str]:
    """`sacctmgr`: cases of its arguments."""
    (machine.root / "bundle/users").write_text(USERS)
    machine.command("sacctmgr", f"case $* in\n{sacctmgr}\nesac")
    machine.command("sleep")
    script = f"CLUSTER=Mine JOB_USER=ubuntu\n{REPORT}\nrun_step user_limits"
    return machine.run(script, "runner", "files", "database", "user_limits")


def test_limits_are_set_when_the_database_knows_that_there_are_gpus(machine: Machine) -> None:
    """slurmctld answers before it has told slurmdbd."""
    later = "*'list tres'*) if [ \"$(grep -c 'list tres' \"$ROOT/calls\")\" -gt 3 ]; then echo 'gres|gpu'; fi ;;"
    done = limits(machine, later)
    assert done.returncode == 0, done.stdout
    calls = machine.calls()
    assert [call for call in calls if "tres" in call][:4] == ["sacctmgr -Q -n -P list tres format=type,name"] * 4
    assert calls.index("sleep 0.5") < next(number for number, call in enumerate(calls) if "modify" in call)


def test_a_database_that_learns_of_no_gpus_is_named(machine: Machine) -> None:
    done = limits(machine, "*'list tres'*) echo 'cpu|' ;;")
    assert "Slurm's database does not know gres/gpu after a minute: see /var/log/slurm/slurmctld.log" in done.stdout
    assert not [call for call in machine.calls() if "modify" in call]


@pytest.mark.parametrize("step", ["user_limits", "accounting"])
def test_the_first_line_of_sacctmgrs_error_is_reported(machine: Machine, step: str) -> None:
    """Its other lines repeat the arguments."""
    (machine.root / "bundle/error").write_text(UNKNOWN_TRES)
    (machine.root / "bundle/users").write_text(USERS)
    fails = 'cat "$ROOT/bundle/error" >&2; exit 1'
    machine.command("sacctmgr", f"case $* in\n{GPUS_KNOWN}\n*list*) ;;\n*) {fails} ;;\nesac")
    script = f"CLUSTER=Mine JOB_USER=ubuntu ACCOUNTING=local\n{REPORT}\nrun_step {step}"
    said = machine.run(script, "runner", "files", "services", "database", step).stdout
    (reported,) = [line for line in said.splitlines() if line.startswith("REPORTED")]
    assert "sacctmgr: error: slurmdb_format_tres_str: no TRES known by type gres/gpu (log" in reported


def test_shares_and_limits_are_set(machine: Machine) -> None:
    """A user who comes back may submit again."""
    done = limits(machine, GPUS_KNOWN)
    assert done.returncode == 0, done.stderr
    where = "sacctmgr -Q -i modify user where name"
    assert [call for call in machine.calls() if "modify" in call] == [
        f"{where}=ada account=users set fairshare=3 maxjobs=-1 grptres=gres/gpu=-1 maxsubmitjobs=5000",
        f"{where}=ben account=users set fairshare=1 maxjobs=2 grptres=gres/gpu=8 maxsubmitjobs=5000",
    ]


def test_slurm_refuses_new_jobs_of_a_removed_user(machine: Machine) -> None:
    """Slurm counts the user's jobs and the new one, and refuses more than MaxSubmitJobs (src/slurmctld/acct_policy.c).
    `-P` prints an empty line for the account itself."""
    done = limits(machine, f"{GPUS_KNOWN}\n*association*) printf '\\nubuntu\\nada\\nadam\\nben\\n' ;;")
    assert done.returncode == 0, done.stderr
    calls = machine.calls()
    assert "sacctmgr -Q -n -P list association cluster=mine account=users format=user" in calls
    assert [call for call in calls if call.endswith("maxsubmitjobs=0")] == [
        "sacctmgr -Q -i modify user where name=adam account=users set maxsubmitjobs=0"
    ]
