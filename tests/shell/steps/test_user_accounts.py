"""The program that makes users' accounts, with the system's own tools on a copy of /etc that only the test sees."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making accounts takes root")

# A user cannot read a checkout below /root.
ACCOUNTS, USER_KEY = (f"bash /home/gpucluster/bin/{name}" for name in ("accounts", "user-key"))
ADA, BEN = (
    "ada 24567 fairshare=1 maxjobs=-1 grptres=gres/gpu=-1",
    "ben 30001 fairshare=1 maxjobs=2 grptres=gres/gpu=4",
)
WORLD = """
mount -t tmpfs none {place}
mkdir {place}/upper {place}/work
mount -t overlay none -o lowerdir=/etc,upperdir={place}/upper,workdir={place}/work /etc
mount -t tmpfs none /home
mount -t tmpfs none /var/lib
mkdir /home/gpucluster
cp -r {programs} /home/gpucluster/
mount -t tmpfs none /opt
mkdir -p /opt/gpucluster/bundle
cp -r {library} /opt/gpucluster/bundle/lib
users() {{ printf '%s\\n' "$@" >/home/gpucluster/users; }}
none() {{ : >/home/gpucluster/users; }}
"""


def said(tmp_path: Path, script: str, exit_code: int = 0) -> list[str]:
    """The lines that it prints."""
    programs = shlex.quote(str(BOOTSTRAP / "programs/bin"))
    library = shlex.quote(str(BOOTSTRAP / "lib"))
    world = WORLD.format(place=shlex.quote(str(tmp_path)), programs=programs, library=library)
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-euc", world + script],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == exit_code, done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_a_user_has_the_same_uid_and_a_private_home(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        f"users {ADA!r} {BEN!r}; {ACCOUNTS} head; id -u ada; id -g ada; stat -c '%a %U' /home/ada; id -u ben",
    ) == ["24567", "24567", "700 ada", "30001"]


def test_a_compute_node_makes_no_home(tmp_path: Path) -> None:
    assert said(tmp_path, f"users {ADA!r}; {ACCOUNTS} compute; id -u ada; ls /home") == ["24567", "gpucluster"]


def test_a_cluster_without_users_is_left_alone(tmp_path: Path) -> None:
    assert said(tmp_path, f"{ACCOUNTS} head; getent group gpucluster || echo none; ls /var/lib") == ["none"]


def test_a_removed_user_is_locked_and_keeps_the_home(tmp_path: Path) -> None:
    removed = said(
        tmp_path,
        f"users {ADA!r} {BEN!r}; {ACCOUNTS} head; users {ADA!r}; {ACCOUNTS} head; {ACCOUNTS} head; "
        "getent shadow ben | cut -d : -f 8; getent passwd ben ada | cut -d : -f 7; ls /home",
    )
    assert removed == ["1", "/usr/sbin/nologin", "/bin/bash", "ada", "ben", "gpucluster"]


def test_the_last_user_is_locked_too_and_can_come_back(tmp_path: Path) -> None:
    shell = "getent passwd ada | cut -d : -f 7; getent shadow ada | cut -d : -f 8"
    lines = said(
        tmp_path,
        f"users {ADA!r}; {ACCOUNTS} head; none; {ACCOUNTS} head; {shell}; users {ADA!r}; {ACCOUNTS} head; {shell}",
    )
    assert lines == ["/usr/sbin/nologin", "1", "/bin/bash", ""]


IMPOSSIBLE = {
    "an account of the image": ("man 24567", "the image has an account man of its own: choose another name"),
    "a group of the image": ("plugdev 24567", "the image has a group plugdev of its own: choose another name"),
    "the uid of another account": ("dora 30500", "the uid 30500 belongs to eve: write another uid for dora"),
    "the gid of another group": ("dora 30600", "the gid 30600 belongs to eves: write another uid for dora"),
    "files of another uid": (
        "cleo 31001",
        "/home/cleo belongs to the uid 31000, and cleo has the uid 31001: write uid: 31000",
    ),
    "a locked account with another uid": ("ben 31002", "ben has the uid 30001 on this machine: write uid: 30001"),
}
OCCUPIED = (
    "useradd --uid 30500 --user-group --no-create-home eve; groupadd --gid 30600 eves; "
    "mkdir /home/cleo; chown 31000 /home/cleo; rm -r /home/ben; "
)


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_list_with_an_impossible_account_is_refused_before_it_is_published(tmp_path: Path, case: str) -> None:
    """Nodes read the published list before each job."""
    entry, why = IMPOSSIBLE[case]
    says = said(
        tmp_path,
        f"users {BEN!r}; {ACCOUNTS} head; none; {ACCOUNTS} head; {OCCUPIED}"
        f"printf '%s\\n' '{entry} x x x' {ADA!r} >/home/new; {ACCOUNTS} check /home/new",
        exit_code=1,
    )
    assert says == [f"users: {why}"]


def test_a_list_that_fits_this_machine_is_accepted_and_changes_nothing(tmp_path: Path) -> None:
    again = f"users {ADA!r}; {ACCOUNTS} head; printf '%s\\n' {ADA!r} {BEN!r} >/home/new; {ACCOUNTS} check /home/new"
    assert said(tmp_path, f"{again}; {ACCOUNTS} check /dev/null; id -u ben 2>/dev/null || echo no ben") == ["no ben"]


def test_one_impossible_account_keeps_only_its_own_jobs_from_a_node(tmp_path: Path) -> None:
    """A node whose prolog fails is drained."""
    lines = said(
        tmp_path,
        f"users 'man 24000 x x x' {ADA!r}; "
        f"for job in '' 1000 24567 24000; do {ACCOUNTS} compute $job 2>/dev/null && echo runs || echo drains; done; "
        "id -u ada",
    )
    assert lines == ["runs", "runs", "runs", "drains", "24567"]


def test_an_account_that_becomes_possible_is_made_before_the_next_job(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        f"mkdir /home/ada; chown 31000 /home/ada; users {ADA!r} {BEN!r}; {ACCOUNTS} compute; "
        f"chown 24567 /home/ada; {ACCOUNTS} compute 30001; id -u ada",
    )
    assert lines == [
        "24567",
        "users: /home/ada belongs to the uid 31000, and ada has the uid 24567: write uid: 31000",
    ]


def test_the_sessions_of_a_removed_user_end_on_the_head_node_alone(tmp_path: Path) -> None:
    """Their running jobs run to their end."""
    ends = "mkdir /home/bin; printf '#!/bin/sh\\necho $*; exit 1\\n' >/home/bin/loginctl; chmod +x /home/bin/loginctl"
    removed = f"{ends}; PATH=/home/bin:$PATH; users {ADA!r}; {ACCOUNTS} ROLE; none; {ACCOUNTS} ROLE; {ACCOUNTS} ROLE"
    assert said(tmp_path, removed.replace("ROLE", "head")) == ["terminate-user ada"]
    assert said(tmp_path, removed.replace("ROLE", "compute")) == []


def test_a_key_of_the_file_replaces_the_one_before_and_the_users_own_stay(tmp_path: Path) -> None:
    def keys(*key: str) -> str:
        return f"runuser -u ada -- {USER_KEY} Test {' '.join(map(shlex.quote, key))}"

    mine = "runuser -u ada -- sh -c 'echo mine >>/home/ada/.ssh/authorized_keys'"
    show = "cut -d ' ' -f 1,3- /home/ada/.ssh/authorized_keys; stat -c '%a %U' /home/ada/.ssh/*"
    lines = said(
        tmp_path,
        f"chmod o+x {shlex.quote(str(tmp_path))}; users {ADA!r}; {ACCOUNTS} head; {keys('old AAAA')}; {mine}; "
        f"{keys('new BBBB')}; {keys('new BBBB')}; {show}; {keys()}; "
        "grep -c cluster.yaml /home/ada/.ssh/authorized_keys || true",
    )
    assert lines == ["ssh-ed25519 ada@Test", "mine", "new cluster.yaml of Test", "600 ada", "600 ada", "600 ada", "0"]


def test_a_pending_job_of_a_removed_user_runs_on_a_node_that_booted_later(tmp_path: Path) -> None:
    """Otherwise the prolog that makes the job's scratch folder fails, and drains the node."""
    state = "id -u ben; getent passwd ben | cut -d : -f 7; getent shadow ben | cut -d : -f 8"
    lines = said(
        tmp_path,
        f"mkdir /home/ben; chown 30001 /home/ben; users {ADA!r}; {ACCOUNTS} compute; {ACCOUNTS} compute 30001; "
        f"{state}; "
        f"{ACCOUNTS} compute 30001; {ACCOUNTS} compute 31000; users {BEN!r}; {ACCOUNTS} compute; {state}",
    )
    assert lines == ["30001", "/usr/sbin/nologin", "1", "30001", "/bin/bash", ""]


@pytest.fixture
def ada(tmp_path: Path) -> str:
    """Script that makes her account, and a function `key` that sets up her keys and prints `failed` if it cannot."""
    return (
        f"chmod o+x {shlex.quote(str(tmp_path))}; users {ADA!r}; {ACCOUNTS} head; "
        f'as() {{ runuser -u ada -- sh -c "cd; $1"; }}; '
        f"key() {{ timeout 5 runuser -u ada -- {USER_KEY} Test 2>/dev/null || echo failed $?; }}; "
    )


def test_the_public_half_of_a_users_key_is_made_again(tmp_path: Path, ada: str) -> None:
    lines = said(
        tmp_path,
        f"{ada} key; as 'rm .ssh/id_ed25519.pub .ssh/authorized_keys'; key; "
        "as 'cut -d \" \" -f 1 .ssh/id_ed25519.pub; cmp .ssh/id_ed25519.pub .ssh/authorized_keys && ls .ssh'",
    )
    assert lines == ["ssh-ed25519", "authorized_keys", "id_ed25519", "id_ed25519.pub"]


def test_a_second_run_writes_no_key_again(tmp_path: Path, ada: str) -> None:
    keys = ".ssh/authorized_keys"
    lines = said(tmp_path, f"{ada} key; as 'touch -d @1 {keys}'; key; as 'stat -c %Y {keys}'")
    assert lines == ["1"]


def test_a_key_with_a_passphrase_is_not_asked_for(tmp_path: Path, ada: str) -> None:
    """The pipe would be the passphrase's source."""
    makes = "mkdir .ssh; ssh-keygen -q -t ed25519 -N secret -f .ssh/id_ed25519; rm .ssh/id_ed25519.pub"
    lines = said(tmp_path, f"{ada} as '{makes}'; key; as 'ls .ssh'")
    assert lines[0].startswith("failed")
    assert lines[0] != "failed 124"
    assert "id_ed25519.pub" not in lines
