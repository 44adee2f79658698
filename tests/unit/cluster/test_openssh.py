"""The configuration for plain OpenSSH, read and used by the real `ssh`, which connects to `ssh_head.Head`."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_ssh import lead
from ssh_head import Head, new_key, running_head

from gpucluster.errors import UsageError
from gpucluster.head import openssh
from gpucluster.head.openssh import Alias
from tests.in_process import InProcessRemote

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
with_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")


@pytest.fixture
def alias(tmp_path: Path) -> Alias:
    alias = Alias(tmp_path / "a folder of 100%" / "gpu")
    alias.make()
    alias.config_file.write_text(alias.config(tmp_path / "cluster.yaml", None))
    return alias


@pytest.fixture
def head() -> Iterator[Head]:
    with running_head() as head:
        yield head


def ssh(alias: Alias, head: Head, *words: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    lead(alias, head)
    argv = ["ssh", "-F", str(alias.config_file), alias.name, *words]
    return subprocess.run(argv, input=input, capture_output=True, timeout=60, check=False)


def effective(alias: Alias, host: str) -> dict[str, str]:
    """The settings that ssh reads from the configuration."""
    argv = ["ssh", "-G", "-F", str(alias.config_file), host]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@with_ssh
@pytest.mark.parametrize("host", ["gpu", "train-1.gpu"])
def test_ssh_reads_the_intended_settings(alias: Alias, host: str) -> None:
    found = effective(alias, host)
    wanted = {"user": "ubuntu", "stricthostkeychecking": "true", "identitiesonly": "yes", "hostname": host}
    assert wanted.items() <= found.items()
    words = shlex.split(found["proxycommand"].replace("%%", "%"))
    assert words[-3:] == ["tunnel", str(alias.folder), "%h"]
    assert words[words.index("-c") + 1] == str(alias.folder.parents[1] / "cluster.yaml")


@with_ssh
@pytest.mark.parametrize("host", ["gpu2", "train-1.gpu2", "gpu-train-1", "github.com"])
def test_other_hosts_are_not_affected(alias: Alias, host: str) -> None:
    assert "proxycommand" not in effective(alias, host)


@with_ssh
def test_ssh_reaches_the_head_through_the_tunnel(alias: Alias, head: Head) -> None:
    data = os.urandom(2**20)
    done = ssh(alias, head, "cat; echo said >&2; exit 7", input=data)
    assert (done.returncode, done.stdout == data, done.stderr) == (7, True, b"said\n")


@with_ssh
def test_ssh_refuses_a_head_that_shows_another_key(alias: Alias, head: Head, tmp_path: Path) -> None:
    assert ssh(alias, head, "true").returncode == 0
    head.key = new_key()  # the key that it shows; it published another one
    done = ssh(alias, head, f"touch {tmp_path}/was-here")
    assert done.returncode == 255 and b"Host key verification failed" in done.stderr
    assert not (tmp_path / "was-here").exists()


@with_ssh
def test_a_head_node_that_was_replaced_is_known_at_once(alias: Alias, head: Head) -> None:
    assert ssh(alias, head, "true").returncode == 0
    head.key = new_key()
    head.published = f"{head.key.get_name()} {head.key.get_base64()} root@head"
    done = ssh(alias, head, "true")
    assert (done.returncode, done.stderr) == (0, b"")


@with_ssh
def test_a_tunnel_that_is_refused_says_why(alias: Alias, head: Head) -> None:
    head.refuse_tunnel = "cannot connect: 10.0.0.4 is not there"
    done = ssh(alias, head, "true")
    assert done.returncode == 255
    assert b"error: the tunnel has ended: cannot connect: 10.0.0.4 is not there" in done.stderr


def test_the_key_is_kept_and_only_its_owner_can_read_it(alias: Alias) -> None:
    key = alias.public_key()
    alias.make()
    assert alias.public_key() == key and key.startswith("ssh-ed25519 AAAA")
    assert stat.S_IMODE((alias.folder / "id_ed25519").stat().st_mode) == 0o600
    assert stat.S_IMODE(alias.folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in alias.folder.iterdir()) == ["config", "id_ed25519"]


def test_connections_side_by_side_keep_each_others_host_keys(alias: Alias) -> None:
    hosts = [f"train-{number}.gpu" for number in range(8)]
    threads = [threading.Thread(target=alias.trust, args=(host, [f"ssh-ed25519 {host}"])) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alias.trust("train-3.gpu", ["ssh-ed25519 new", "ecdsa-sha2-nistp256 new"])
    lines = (alias.folder / "known_hosts").read_text().splitlines()
    others = [f"{host} ssh-ed25519 {host}" for host in hosts if host != "train-3.gpu"]
    assert sorted(lines) == sorted([*others, "train-3.gpu ssh-ed25519 new", "train-3.gpu ecdsa-sha2-nistp256 new"])


def test_a_nodes_keys_are_those_that_it_wrote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As bootstrap/steps/jobs/ssh_trust.sh writes them."""
    monkeypatch.setattr(openssh, "_NODE_KEYS", str(tmp_path))
    names = "train-1,train-1.gpucluster.internal,10.0.0.9"
    (tmp_path / "train-1").write_text(f"{names} ecdsa-sha2-nistp256 AAAAE\n{names} ssh-ed25519 AAAAC\n")
    assert openssh.node_keys(InProcessRemote(), "train-1") == ["ecdsa-sha2-nistp256 AAAAE", "ssh-ed25519 AAAAC"]


def test_hosts_and_nodes() -> None:
    alias = Alias(Path("/x/gpu"))
    assert [alias.node(alias.host(node)) for node in (None, "train-1")] == [None, "train-1"]
    for host in ("gpu2", "train-1", "a.b.gpu", ".gpu", "../x.gpu", "train-1.gpu.gpu"):
        with pytest.raises(UsageError, match="is not a host of this cluster"):
            alias.node(host)


USERS = "Host *\n  ForwardAgent no\n# é\n"


def test_the_users_own_configuration_gets_one_line(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles-ssh", tmp_path / ".ssh" / "config"
    link.parent.mkdir()
    real.write_text(USERS)
    real.chmod(0o644)
    link.symlink_to(real)
    assert openssh.include(link)
    assert real.read_text() == f"# aliases of `gpucluster ssh-config --write`\nInclude gpucluster/*/config\n\n{USERS}"
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o644
    assert not openssh.include(link)
    assert real.read_text().count("Include") == 1


def test_a_user_who_has_no_configuration_gets_one(tmp_path: Path) -> None:
    file = tmp_path / ".ssh" / "config"
    assert openssh.include(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_an_include_line_written_by_the_user_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("include ~/.ssh/work ~/.ssh/gpucluster/*/config\n")
    assert not openssh.include(tmp_path / "config")
