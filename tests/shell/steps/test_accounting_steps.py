"""The steps of Slurm's accounting, with stand-ins for AWS and for sacctmgr."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from signed_aws import SignedAws
from test_steps import BOOTSTRAP, Machine, source_of

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
def test_a_number_of_another_database_is_forgotten(machine: Machine, before: str | None, kept: bool) -> None:
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


def test_a_cluster_that_the_database_does_not_know_is_added(machine: Machine) -> None:
    (machine.root / "etc/slurm/slurmdbd.conf").write_text("StorageHost=localhost\n")
    machine.command("sacctmgr")
    done = machine.run(
        "ACCOUNTING=local CLUSTER=GpuCluster\nstep_accounting", "runner", "files", "services", "database", "accounting"
    )
    assert done.returncode == 0, done.stderr
    assert "sacctmgr -Q -i add cluster gpucluster" in machine.calls()


@pytest.mark.parametrize("ours", [True, False])
def test_only_what_a_role_started_is_stopped_by_it(machine: Machine, ours: bool) -> None:
    machine.command("systemctl")
    started = machine.root / "var/started"
    started.mkdir(parents=True)
    if ours:
        (started / "mariadb").touch()
    done = machine.run("service_down mariadb", "runner", "services")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == (["systemctl --quiet disable --now mariadb"] if ours else [])
    assert not (started / "mariadb").exists()
