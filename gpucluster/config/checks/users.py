"""Rules about `users`: their names and uids."""

from __future__ import annotations

from gpucluster.account import ADMINISTRATOR
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.users import User
from gpucluster.config.validators import Findings, Validators

validator = Validators("Users")

RESERVED = frozenset(
    (
        f"{ADMINISTRATOR} root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc "
        "nobody adm tty disk dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp "
        "video sasl plugdev staff users kmem input sgx kvm render crontab syslog messagebus polkitd landscape "
        "lxd admin netdev uuidd tcpdump sshd pollinate dhcpcd gnats ssh systemd-coredump systemd-oom "
        "snap_daemon plocate mlocate dnsmasq tss usbmux fwupd-refresh ec2-instance-connect systemd-network "
        "systemd-resolve systemd-timesync systemd-journal docker munge slurm mysql statd cwagent aoss "
        "nvidia-persistenced gpucluster ssl-cert nogroup rdma dcgm nslcd"
    ).split()
)
"""Accounts and groups of Ubuntu's base-passwd, of its images on EC2 (tests/unit/config/test_users.py has their lists),
and of packages that nodes have."""


@validator("user-name-free", "https://packages.ubuntu.com/noble/base-passwd: passwd.master and group.master")
def user_name_free(user: User, path: Path, config: ClusterConfig) -> Findings:
    """A user does not have the name of an account or group of the system."""
    if user.name in RESERVED:
        yield Finding((*path, "name"), f"{user.name!r} is an account or a group of the system", "choose another name")


@validator("user-name-unique", "man useradd.8: E_NAME_IN_USE: username already in use")
def user_name_unique(config: ClusterConfig) -> Findings:
    """Each user has a different name."""
    first: dict[str, int] = {}
    for index, user in _named(config):
        if user.name in first:
            yield Finding(("users", index, "name"), f"{user.name!r} is already the name of users[{first[user.name]}]")
        first.setdefault(user.name, index)


@validator("user-uid-unique", "man useradd.8: E_UID_IN_USE: UID already in use")
def user_uid_unique(config: ClusterConfig) -> Findings:
    """Each user has a different uid, whether the cluster file gives it or it is derived from the name."""
    first: dict[int, str] = {}
    for index, user in _named(config):
        other = first.setdefault(user.number, user.name)
        if other != user.name:
            hint = f"write another uid from 1001 to 59999 for {user.name}"
            yield Finding(("users", index), f"{user.name!r} has the uid {user.number} of {other!r}", hint)


@validator("users-need-accounting", "man slurm.conf.5: AccountingStorageEnforce: limits need slurmdbd")
def users_need_accounting(config: ClusterConfig) -> Findings:
    """A cluster with users has accounting: Slurm stores their shares and limits, and its administrator, there."""
    if config.users and config.accounting == "off":
        yield Finding(("accounting",), "'off', but users need accounting", "write accounting: local")


def _named(config: ClusterConfig) -> list[tuple[int, User]]:
    """Users whose name and uid are valid."""
    return [(index, user) for index, user in enumerate(config.users) if {"name", "uid"} <= user.__dict__.keys()]
