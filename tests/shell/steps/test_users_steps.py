"""The steps that give a node its users, and its limits, with stand-ins for the programs that they call."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, Machine, source_of

USERS = (
    "ada 24567 fairshare=1 maxjobs=-1 grptres=gres/gpu=-1 ssh-ed25519 AAAA\nben 30001 fairshare=1 maxjobs=2 grptres=x\n"
)
LIMITS = ("/etc/security", "/etc/ssh", "/etc/sysctl.d", "/etc/systemd")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Its programs are stand-ins in bundle/programs."""
    found = Machine(tmp_path)
    for name in ("users", "ssh_trust"):
        found.step(name, found.below(source_of(name).read_text(), "/home", "/etc", "/opt"))
    (tmp_path / "bundle/programs/bin").mkdir(parents=True)
    (tmp_path / "bundle/programs/prolog.d").mkdir()
    (tmp_path / "bundle/users").write_text(USERS)
    return found


def program(machine: Machine, name: str, body: str) -> None:
    (machine.root / "bundle/programs" / name).write_text(
        f'#!/bin/bash\necho "{name} $*" >>{machine.calls_file}\n{body}\n'
    )


def files(machine: Machine) -> str:
    """The functions that write files, whose programs are below the scratch folder."""
    machine.step("files", machine.below(source_of("files").read_text(), "/opt"))
    return "files"


def test_the_head_node_publishes_a_list_that_it_has_checked(machine: Machine) -> None:
    program(machine, "bin/accounts", f"[ $1 = head ] || [ ! -e {machine.root}/home/gpucluster/users ]")
    done = machine.run("ROLE=head\nstep_users", "runner", files(machine), "users")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == [f"bin/accounts check {machine.root}/bundle/users", "bin/accounts head"]
    assert (machine.root / "home/gpucluster/users").read_text() == USERS


def test_a_list_with_an_impossible_user_is_not_published(machine: Machine) -> None:
    """Every node reads the published list before each job of any user."""
    program(machine, "bin/accounts", "echo 'users: the image has an account ada of its own' >&2; exit 1")
    published = machine.root / "home/gpucluster/users"
    published.parent.mkdir(parents=True)
    published.write_text("before\n")
    done = machine.run("ROLE=head\nstep_users", "runner", files(machine), "users")
    assert done.returncode == 1
    assert "the image has an account ada of its own" in done.stderr
    assert published.read_text() == "before\n"
    assert len(machine.calls()) == 1


def test_the_prolog_asks_only_for_the_account_of_its_job(machine: Machine) -> None:
    """By the uid: slurmd would look up a name that the node may not know yet."""
    prolog = machine.root / "prolog"
    prolog.write_text((BOOTSTRAP / "programs/prolog.d/05-users").read_text().replace("/opt/gpucluster/bin/", ""))
    machine.command("accounts")
    done = machine.run(f"SLURM_JOB_UID=24567 SLURM_JOB_USER=nobody sh {prolog}")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == ["accounts compute 24567"]


def test_a_user_whose_keys_cannot_be_set_up_does_not_block_the_others(machine: Machine) -> None:
    machine.command("runuser", 'case $2 in ada) exit 1 ;; *) cat >>"${0%/*}/../stdin" ;; esac')
    machine.command("timeout", 'while [[ $1 != runuser ]]; do shift; done; "$@"')
    (machine.root / "bundle/programs/bin/user-key").touch()
    done = machine.run("CLUSTER=Test JOB_USER=ubuntu\nuser_keys", "runner", files(machine), "ssh_trust")
    assert done.returncode == 0, done.stderr
    key = f"{machine.root}/opt/gpucluster/bin/user-key Test"
    runs = [
        f"runuser -u {name} -- {key} {data}"
        for name, data in (("ubuntu", ""), ("ada", "ssh-ed25519 AAAA"), ("ben", ""))
    ]
    assert [call for call in machine.calls() if call.startswith("runuser")] == runs
    assert "the keys of ada could not be set up" in done.stdout
    assert "the keys of ben" not in done.stdout
    assert (machine.root / "stdin").read_text() == ""


def test_a_user_who_blocks_the_setup_of_keys_is_given_up(machine: Machine) -> None:
    """authorized_keys may be a pipe that nobody writes to."""
    machine.command("runuser", 'if [ $2 = ada ]; then trap "" TERM; sleep 20; fi')
    text = (machine.root / "bundle/steps/jobs/ssh_trust.sh").read_text()
    machine.step("ssh_trust", text.replace("--kill-after=5 20 ", "--kill-after=0.2 0.2 "))
    (machine.root / "bundle/programs/bin/user-key").touch()
    done = machine.run("CLUSTER=Test JOB_USER=ubuntu\nuser_keys", "runner", files(machine), "ssh_trust")
    assert done.returncode == 0, done.stderr
    assert "the keys of ada could not be set up" in done.stdout
    assert machine.calls()[-1].startswith("runuser -u ben")


def limited(root: Path, logind: str, role: str = "compute") -> Machine:
    machine = Machine(root)
    machine.command("sysctl")
    machine.command("systemctl", f"case $1 in is-active) {logind} ;; esac")
    machine.step("limits", machine.below(source_of("limits").read_text(), *LIMITS))
    done = machine.run(f"ROLE={role}\nstep_limits\nstep_limits", "runner", "files", "limits")
    assert done.returncode == 0, done.stderr
    return machine


@pytest.mark.parametrize("role", ["head", "compute"])
def test_only_the_head_limits_what_one_users_sessions_use(tmp_path: Path, role: str) -> None:
    """On compute nodes, launchers such as DeepSpeed's pdsh start ranks in sessions of ssh."""
    machine = limited(tmp_path, "true", role)
    slice_ = tmp_path / "etc/systemd/system/user-.slice.d/90-gpucluster.conf"
    assert slice_.exists() == (role == "head")
    assert machine.calls().count("systemctl daemon-reload") == (role == "head"), "only if something has changed"
    if role == "head":
        assert slice_.read_text() == "[Slice]\nTasksMax=4096\nMemoryMax=50%\n"
    config = tmp_path / "etc/ssh/sshd_config.d/50-gpucluster.conf"
    assert config.read_text() == "MaxStartups 200:30:400\nPerSourceMaxStartups 100\nLoginGraceTime 30\n"


@pytest.mark.parametrize("logind", ["true", "false"])
def test_a_job_keeps_its_shared_memory_when_its_user_logs_out(tmp_path: Path, logind: str) -> None:
    """logind.conf(5): drop-ins, RemoveIPC. Nobody may have logged in since the boot, and logind may not run yet."""
    machine = limited(tmp_path, logind)
    assert (tmp_path / "etc/systemd/logind.conf.d/gpucluster.conf").read_text() == "[Login]\nRemoveIPC=no\n"
    signalled = "systemctl kill --signal=HUP systemd-logind" in machine.calls()
    assert signalled == (logind == "true")


def test_host_keys_that_a_node_is_writing_are_not_read(tmp_path: Path) -> None:
    """When ssh read a file that its node renamed meanwhile, it did not connect to any node."""
    step = source_of("ssh_trust").read_text()
    (line,) = re.findall(r"^KnownHostsCommand (.*)$", step, re.MULTILINE)
    (tmp_path / "train-1").write_text("train-1 ssh-ed25519 AAAA\n")
    (tmp_path / "train-2.new").write_text("train-2 ssh-ed")
    done = subprocess.run(line.replace("$KNOWN_HOSTS", str(tmp_path)).split(), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "train-1 ssh-ed25519 AAAA\n", "")
