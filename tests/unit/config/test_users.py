"""`users` of cluster.yaml: what nodes get of them, and whose account a command uses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster import account, config, render
from gpucluster.cluster import aws
from gpucluster.config.checks.users import RESERVED
from gpucluster.errors import ConfigError, UsageError
from gpucluster.head.openssh import Alias
from gpucluster.job.script import folder_path

TEXT = """
name: c
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBfFA3ASR2KHyUUHcTg0ePpNkTdBD9+0ckvAPhhtnng"

BASE = (
    "root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc nobody systemd-network "
    "systemd-timesync messagebus syslog systemd-resolve uuidd tss sshd pollinate tcpdump landscape fwupd-refresh "
    "ec2-instance-connect ubuntu "
)
IMAGES = {
    "accounts of 22.04": BASE + "gnats lxd usbmux nvidia-persistenced",
    "accounts of 24.04": BASE + "dhcpcd polkitd usbmux dnsmasq systemd-oom mysql munge slurm",
    "groups of 24.04": "root daemon bin sys adm tty disk lp mail news uucp man proxy kmem dialout fax voice cdrom "
    "floppy tape sudo audio dip www-data backup operator list irc src shadow utmp video sasl plugdev staff games users "
    "nogroup systemd-journal systemd-network crontab systemd-timesync input sgx kvm render messagebus syslog "
    "systemd-resolve uuidd tss lxd rdma tcpdump landscape fwupd-refresh polkitd admin netdev",
}
"""From /etc/passwd and /etc/group of Ubuntu's server images on EC2, as people have published them (the lines
`dhcpcd:x:100:65534:DHCP Client Daemon` and `gnats:x:41:41:Gnats Bug-Reporting System`), without names that start with
an underscore, which no user may have; and the accounts of packages that nodes have."""


def bundle(users: str = "") -> dict[str, str]:
    return render.bundle(config.loads(TEXT + users))


def test_a_node_gets_each_users_number_limits_and_key() -> None:
    users = f'users: [{{name: ben, max_jobs: 2, max_gpus: 8}}, {{name: ada, fair_share: 3, public_key: "{KEY} a b"}}]'
    assert bundle(users)["users"].splitlines() == [
        f"ada 22152 fairshare=3 maxjobs=-1 grptres=gres/gpu=-1,billing=-1 {KEY}",
        "ben 57153 fairshare=1 maxjobs=2 grptres=gres/gpu=8,billing=899999",
    ]


def test_a_number_does_not_change_with_the_other_users() -> None:
    alone, together = bundle("users: [{name: ada}]"), bundle("users: [{name: zoe}, {name: ada}, {name: ben}]")
    assert alone["users"].splitlines()[0] == together["users"].splitlines()[0]


def test_slurm_hides_jobs_and_enforces_limits_only_with_users() -> None:
    one, several = bundle(), bundle("users: [{name: ada}]")
    assert "users" not in one
    assert "PrivateData=cloud\n" in one["slurm/slurm.conf"]
    assert "Enforce" not in one["slurm/slurm.conf"]
    assert "PrivateData" not in one["slurm/slurmdbd.conf"]
    assert "PrivateData=cloud,jobs\n" in several["slurm/slurm.conf"]
    assert "AccountingStorageEnforce=associations,limits\n" in several["slurm/slurm.conf"]
    assert "PrivateData=jobs\n" in several["slurm/slurmdbd.conf"]


@pytest.mark.parametrize("image", IMAGES)
def test_no_user_has_the_name_of_an_account_or_group_of_ubuntus_images(image: str) -> None:
    assert set(IMAGES[image].split()) <= RESERVED


def test_two_names_with_one_number_are_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError) as refused:
        config.loads(f"{TEXT}users: [{{name: ada}}, {{name: ben, uid: 22152}}]")
    assert "'ben' has the uid 22152 of 'ada'" in str(refused.value)
    assert "write another uid" in refused.value.render()


def test_whose_account_a_command_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(account.VARIABLE, raising=False)
    assert (account.user(), folder_path("x")) == ("ubuntu", "/home/ubuntu/jobs/x")
    monkeypatch.setenv(account.VARIABLE, "ada")
    assert (account.user(), folder_path("x")) == ("ada", "/home/ada/jobs/x")


def test_the_configuration_of_ssh_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv(account.VARIABLE, "ada")
    text = Alias(Path("/x/gpu")).config(Path("cluster.yaml"), "work")
    assert "  User ada\n" in text
    assert "ProxyCommand env AWS_PROFILE=work GPUCLUSTER_USER=ada " in text


@pytest.mark.parametrize("written_by", ["", "ubuntu", "ada"])
@pytest.mark.parametrize("profile", [None, "work"])
def test_the_configuration_of_ssh_keeps_its_user(
    monkeypatch: pytest.MonkeyPatch, written_by: str, profile: str | None
) -> None:
    """The key is pushed for the user in the environment of the ProxyCommand, and ssh logs in as the one written."""
    monkeypatch.setenv(account.VARIABLE, written_by)
    text = Alias(Path("/x/gpu")).config(Path("cluster.yaml"), profile)
    (user,) = re.findall("^  User (.*)$", text, re.MULTILINE)
    (proxy,) = re.findall("^  ProxyCommand (.*)$", text, re.MULTILINE)
    words = shlex.split(proxy)
    started = [*words[: words.index(sys.executable)], "printenv", account.VARIABLE]
    for later in ("ben", "ubuntu", ""):
        environment = os.environ | {account.VARIABLE: later}
        done = subprocess.run(started, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == user == (written_by or "ubuntu")


def test_the_administrator_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(account.VARIABLE, "ubuntu")
    aws.connect(config.loads(f"{TEXT}users: [{{name: ada}}]"))
    aws.connect(config.loads(TEXT))


def test_a_user_whom_the_file_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(account.VARIABLE, "bob")
    with pytest.raises(UsageError) as refused:
        aws.connect(config.loads(f"{TEXT}users: [{{name: ada}}]"))
    assert str(refused.value) == "GPUCLUSTER_USER: 'bob' is not a user of the cluster c"
    assert refused.value.hint == "cluster.yaml has: ubuntu, ada"


def users_of(block: str) -> str:
    return f"{TEXT}users:\n  - name: ada\n    public_key: {block}\n"


@pytest.mark.parametrize("style", ["|", ">", "|+", ">-"])
def test_a_key_may_be_a_block(style: str) -> None:
    (ada,) = config.loads(users_of(f"{style}\n      {KEY} ada@laptop\n\n")).users
    assert (ada.public_key, ada.key) == (f"{KEY} ada@laptop", KEY)


@pytest.mark.parametrize(
    ("block", "hint"),
    [
        (f"'{KEY[:20]}\u200b{KEY[20:]}'", "its character 21 is invisible: zero width space (U+200B); remove it"),
        (f"'{KEY[:-9]}'", "what follows ssh-ed25519 is cut off"),
        (f"|\n      {KEY[:30]}\n      {KEY[30:]}\n", "write it in one line"),
        (f"|\n      # of my laptop\n      {KEY}\n", "write only the line 'ssh-ed25519 "),
    ],
)
def test_the_cause_is_named_of_a_text_that_is_nearly_a_key(block: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.loads(users_of(block))
    (problem,) = caught.value.problems
    assert problem.hint and problem.hint.startswith(hint)


def test_a_node_that_is_held_without_a_gpu_uses_up_max_gpus() -> None:
    """Slurm's own check is in tests/cluster/people/test_money.py. A partition without GPUs has no weights, and its CPUs
    fit into the rest below the next GPU."""
    text = (
        TEXT.replace("]\n", ", {name: cpus, instance_types: [c5.18xlarge], max_nodes: 100}]\n") + "accounting: local\n"
    )
    lines = render.bundle(config.loads(f"{text}users: [{{name: ada, max_gpus: 1}}]"))["slurm/slurm.conf"].splitlines()
    weights = {line.split()[0].partition("=")[2]: line for line in lines if line.startswith("PartitionName=")}
    assert "TRESBillingWeights=CPU=8333.333334,Node=100000,GRES/gpu=100000 " in weights["train"]
    assert "TRESBillingWeights" not in weights["cpus"]
    assert "PriorityFlags=MAX_TRES" in lines
    assert int(48 * 8333.333334) == 4 * 100_000
    assert "TRESBillingWeights" not in bundle()["slurm/slurm.conf"]
