"""Real commands that Debian has, beside the records that the image's stand-ins speak.

Their packages are fetched and unpacked, not installed. libfabric is Debian's 1.x or 2.x: what is compared is what does
not change between versions, and what the records say that changed.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from localcloud.testing.recorded import record

SUBJECTS = ["localcloud/machines/guest/usr/share/records/*/*.txt", "localcloud/testing/recorded.py"]
COVERED_BY = (
    "nothing compares the records with real commands; the stand-ins of booted nodes print them in every booted test"
)
PACKAGES = ("kmod", "libfabric-bin", "mdadm", "nfs-common", "nfs-kernel-server")
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """real(COMMAND, ARGUMENT...) -> exit status, and all that it printed."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "partial").mkdir()
    (folder / "status").touch()
    places = [f"-oDir::State::status={folder}/status", f"-oDir::Cache::archives={folder}", "-oDebug::NoLocking=1"]
    fetch = ["apt-get", "-qq", "-y", *places, "--download-only", "--no-install-recommends", "install", *PACKAGES]
    subprocess.run(fetch, check=True, capture_output=True, text=True)
    root = folder / "root"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    (root / "sbin/modprobe").unlink()
    (root / "sbin/modprobe").symlink_to("../bin/kmod")  # as packed it leads to this machine's own
    libraries = ":".join(str(path) for path in (root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu"))

    def run(command: str, *arguments: str, inside: str = "") -> tuple[int, str]:
        path = next(path for each in ("sbin", "usr/sbin", "bin", "usr/bin") if (path := root / each / command).exists())
        environment = {"LD_LIBRARY_PATH": libraries, "PATH": os.environ["PATH"]}
        line = ["unshare", "--mount", "sh", "-c", f'{inside}\n"$0" "$@"', str(path), *arguments]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(("option", "name"), [((), "not-found.txt"), (("--all",), "not-found-all.txt")])
def test_modprobe_of_a_module_that_is_not_there(real: Run, option: tuple[str, ...], name: str) -> None:
    code, said = real("modprobe", *option, "lustre")
    assert (code, said) == (1, record(f"modprobe/{name}", kernel=os.uname().release))


def test_fi_info_without_efa(real: Run) -> None:
    """Before 1.18 the sentence ended with the number."""
    code, said = real("fi_info", "-p", "efa")
    assert code == 61 and record("fi_info/no-data.txt").startswith(said.strip())


def test_the_lines_of_fi_info(real: Run) -> None:
    code, said = real("fi_info", "-p", "tcp")
    names = [
        [line.partition(":")[0] for line in text.splitlines()[:6]]
        for text in (said, record("fi_info/efa-libfabric2.6.txt"))
    ]
    assert code == 0 and names[0] == names[1]
    version = real("fi_info", "--version")[1].splitlines()
    assert [line.partition(" ")[2] for line in version[:1]] and version[1].startswith("libfabric: ")
    api = re.fullmatch(r"libfabric api: (\d+)\.(\d+)", version[2])
    assert api and f"version: {int(api[1])}{int(api[2]):02d}." in said, (
        "major, then minor with two digits, then micro * 10"
    )


def test_mdadm_refuses(real: Run) -> None:
    few, missing, strange = record("mdadm/errors.txt").splitlines()
    create = ("--create", "/dev/md/x", "--run", "--level=0", "--raid-devices=2")
    assert real("mdadm", *create, "/dev/nosuch1") == (1, f"{few}\n")
    assert real("mdadm", *create, "/dev/nosuch1", "/dev/nosuch2") == (2, f"{missing}\n")
    code, said = real("mdadm", "--assemble", "--run", "/dev/md/x", "/dev/zero")
    assert code == 1 and strange.replace("/dev/nosuch1", "/dev/zero") in said


def test_exportfs_goes_on_where_a_directory_is_missing(real: Run) -> None:
    """A mount namespace of its own keeps this machine's exports as they are."""
    own = (
        "mount -t tmpfs none /var/lib && mkdir /var/lib/nfs && touch /var/lib/nfs/etab && mkdir /var/lib/etc\n"
        "echo '/nowhere2 *(ro,no_subtree_check)' >/var/lib/etc/exports && mount --bind /var/lib/etc /etc"
    )
    code, said = real("exportfs", "-ra", inside=own)
    assert (code, said) == (1, record("nfs/exportfs-missing.txt"))


def test_mount_nfs_where_there_is_no_directory(real: Run) -> None:
    assert real("mount.nfs", "127.0.0.1:/x", "/nowhere") == (32, record("nfs/mount-point-missing.txt"))
