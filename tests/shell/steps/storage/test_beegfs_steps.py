"""Runs BeeGFS's steps below a scratch folder: a head and two servers, from packages to mounts, and after a loss.

Commands that change a machine are stand-ins, which keep the state that the steps rely on. BeeGFS's set-up commands are
the local image's, which refuse the same input as the real ones.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from test_scripts import shellcheck, spelled_out
from test_steps import OWNER, source_of

from gpucluster import config, render
from localcloud.machines.image import GUEST_FILES
from localcloud.testing.recorded import recorded

SERVICES = GUEST_FILES / "usr/lib/localcloud/beegfs-services"
PLACES = (
    "/etc/beegfs",
    "/etc/apt",
    "/etc/os-release",
    "/etc/init.d",
    "/etc/environment",
    "/mnt/beegfs",
    "/opt/beegfs",
    "/run/gpucluster",
    "/var/lib/gpucluster",
    "/var/log/gpucluster",
    "/home/gpucluster",
    "/lib/modules",
)
CLUSTER = """\
name: c
region: us-east-1
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}}
  - {{name: other, instance_types: [c5n.18xlarge], max_nodes: 1}}
storage: [{{mount: {mount}, type: beegfs-ram, partition: train, gib_per_node: {gib}, version: "{version}"}}]
"""
AWS_API = "import sys\nprint({'parameter': 'arn:secret', 'secret': 's3cret'}[sys.argv[1]])\n"
COMMANDS = {
    "hostname": "echo $NODE",
    "uname": "echo 6.8.0-test",
    "ip": "echo 'default via 10.0.0.1 dev ens5 proto dhcp metric 100'",
    "dpkg-query": '[ -n "$PACKAGES" ] && echo "20:$PACKAGES"',
    "apt-get": ":",
    "apt-mark": ":",
    "curl": 'while [ "$1" != -o ]; do shift; done; echo downloaded >"$2"',
    "openssl": 'while [ $# -gt 0 ]; do case $1 in -keyout | -out) echo pem >"$2" ;; esac; shift; done',
    "modprobe": '[ -e "$ROOT/module" ]',
    "ss": "echo listening",
    "sleep": ":",
    "mount": 'mkdir -p "${@: -1}"; echo "${@: -1}" >>"$ROOT/mounted"',
    "mountpoint": 'grep -qx "${@: -1}" "$ROOT/mounted"',
    # The contents of the memory are lost.
    "umount": 'sed -i "\\|^${@: -1}$|d" "$ROOT/mounted"; rm -rf "${@: -1}"/*',
    "systemctl": """
verb=$1 unit=${@: -1}
case $verb in
is-active) [ -e "$ROOT/active/$unit" ] ;;
is-enabled) exit 1 ;;
restart)
    if [ "$unit" = "$FAILS" ]; then exit 1; fi
    touch "$ROOT/active/$unit"
    if [ "$unit" = beegfs-client ]; then echo "$MOUNT" >>"$ROOT/mounted"; fi
    ;;
stop) rm -f "$ROOT/active/$unit" ;;
esac""",
    "journalctl": "echo the service said why",
}


class Node:
    """A machine of the cluster: files below its own folder, and the commands that it ran."""

    def __init__(self, folder: Path, name: str, *, version: str = "8", gib: int = 150) -> None:
        self.root, self.name, self.version = folder / name, name, version
        self.mount = f"{self.root}/ram"
        for each in (
            "bin",
            "active",
            "etc",
            "mnt",
            "run",
            "etc/apt/trusted.gpg.d",
            "etc/apt/sources.list.d",
            "opt/beegfs/sbin",
            "opt/beegfs/lib",
            "etc/init.d",
            "var/log/gpucluster",
        ):
            (self.root / each).mkdir(parents=True)
        for each in ("calls", "mounted", "module"):
            (self.root / each).touch()
        (self.root / "etc/os-release").write_text("VERSION_CODENAME=noble\n")
        self._bundle(CLUSTER.format(mount="/ram", gib=gib, version=version))
        (self.root / "bundle/gpucluster_node").mkdir()
        (self.root / "bundle/gpucluster_node/aws_api.py").write_text(AWS_API)
        for command, body in COMMANDS.items():
            self.command(f"bin/{command}", body)
        for tool in ("mgmtd", "setup-mgmtd", "setup-meta", "setup-storage", "meta", "storage", "client", "helperd"):
            self.command(
                f"opt/beegfs/sbin/beegfs-{tool}", f'exec -a "$0" python3 {self._played(f"beegfs-{tool}")} "$@"'
            )
        self.command("etc/init.d/beegfs-client")
        of_a_kind = 'kind=${3#*=}; grep -E "^(ID|${kind::1}:)"'
        self.command("bin/beegfs", f"{recorded('beegfs/v8-node-list.txt')} | {{ {of_a_kind}; }}")
        self.command("opt/beegfs/sbin/beegfs")
        self.command("bin/beegfs-ctl", recorded("beegfs/v7-listnodes-storage.txt"))
        (self.root / "opt/beegfs/lib/libbeegfs_license.so").touch()

    def _bundle(self, text: str) -> None:
        cluster = self.root / "cluster.yaml"
        cluster.write_text(text)
        for path, content in render.bundle(config.load(cluster)).items():
            if path == "beegfs.sh" or path.startswith(("beegfs/", "lib/", "partitions/", "steps/")):
                here = content.replace("root:root", OWNER).replace(
                    "readonly BEEGFS_MOUNT=/ram", f"readonly BEEGFS_MOUNT={self.mount}"
                )
                for place in PLACES:
                    here = re.sub(rf"(?<![\w/.]){place}\b", f"{self.root}{place}", here)
                target = self.root / "bundle" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(here)

    def _played(self, name: str) -> Path:
        """Links commands by name, because a program sees the name with which it was called."""
        link = self.root / "played" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(SERVICES)
        return link

    def command(self, path: str, body: str = "") -> None:
        file = self.root / path
        file.write_text(f'#!/bin/bash\necho "{Path(path).name} $*" >>"{self.root}/calls"\n{body}\n')
        file.chmod(0o755)

    def lacks(self, *names: str) -> None:
        for name in names:
            (self.root / "opt/beegfs/sbin" / name).unlink(missing_ok=True)

    def run(self, verb: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (self.root / "calls").write_text("")
        known = {
            "NODE": self.name,
            "NUMBER": self.name.rpartition("-")[2],
            "ROOT": str(self.root),
            "MOUNT": self.mount,
            "PACKAGES": "",
            "FAILS": "",
        }
        return subprocess.run(
            ["bash", str(self.root / "bundle/beegfs.sh"), verb],
            env={**known, "PATH": f"{self.root}/bin:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self, *of: str) -> list[str]:
        lines = (self.root / "calls").read_text().splitlines()
        return [line.replace(str(self.root), "") for line in lines if line.split()[0] in of]

    def changed(self) -> list[str]:
        """Calls that changed the machine."""
        asking = ("is-active", "is-enabled", "cat")
        found = self.calls("mount", "umount", "systemctl", "beegfs-mgmtd", "openssl", *(
            f"beegfs-setup-{each}" for each in ("mgmtd", "meta", "storage")))  # fmt: skip
        return [call for call in found if not (call.startswith("systemctl") and call.split()[1] in asking)]

    def file(self, path: str) -> Path:
        return self.root / path.lstrip("/")


VERSIONS = ("7.4", "8")
TMPFS = "mode=0700,noatime,nodev,nosuid,noexec"


def started(unit: str) -> str:
    return f"systemctl restart {unit}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_script_passes_shellcheck(tmp_path: Path, version: str) -> None:
    script = Node(tmp_path, "train-1", version=version).root / "bundle/beegfs.sh"
    assert (
        shellcheck("-x", "-a", "--source-path=SCRIPTDIR", "-o", "check-unassigned-uppercase", spelled_out(script)) == ""
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_takes_its_memory_then_sets_up_then_starts(tmp_path: Path, version: str) -> None:
    node = Node(tmp_path, "train-2", version=version)
    node.run("server", GENERATION="7").check_returncode()
    did = [call for call in node.changed() if not call.startswith("systemctl stop")]
    assert did == [
        f"mount -t tmpfs -o size=4g,nr_inodes=262144,{TMPFS} beegfs-meta /mnt/beegfs/meta",
        f"mount -t tmpfs -o size=150g,nr_inodes=9830400,{TMPFS} beegfs-storage /mnt/beegfs/storage",
        "beegfs-setup-meta -p /mnt/beegfs/meta/target -s 2 -C -x",
        "beegfs-setup-storage -p /mnt/beegfs/storage/target -s 2 -i 2 -C",
        started("beegfs-meta"),
        started("beegfs-storage"),
    ]  # fmt: skip
    assert node.file("/mnt/beegfs/storage/target/targetNumID").read_text() == "2\n"
    assert node.file("/mnt/beegfs/storage/generation").read_text() == "7\n"
    assert {each for each in node.calls("ss")} == {"ss -Hltn sport = :8005", "ss -Hltn sport = :8003"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_step_writes_the_files_that_the_services_read(tmp_path: Path, version: str) -> None:
    node = Node(tmp_path, "train-1", version=version)
    node.run("server").check_returncode()
    secret = node.file("/etc/beegfs/conn.auth")
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("s3cret", 0o600)
    assert node.file("/etc/beegfs/interfaces").read_text() == "ens5\n"
    for name in ("meta", "storage", "client"):
        text = node.file(f"/etc/beegfs/beegfs-{name}.conf").read_text()
        pairs = dict(re.findall(r"^(\w+)\s*=\s*(.*)$", text, re.MULTILINE))
        assert pairs["sysMgmtdHost"] == "head.c.internal"
        assert (pairs["connUseRDMA"], pairs["connInterfacesFile"]) == ("false", f"{node.root}/etc/beegfs/interfaces")
    assert "@" not in "".join(path.read_text() for path in node.file("/etc/beegfs").glob("beegfs-*"))


@pytest.mark.parametrize("version", VERSIONS)
def test_management_begins_each_generation_without_servers(tmp_path: Path, version: str) -> None:
    head = Node(tmp_path, "head", version=version)
    records = head.file("/home/gpucluster/beegfs-management")
    made = {"7.4": "beegfs-setup-mgmtd -p /home/gpucluster/beegfs-management -C -f",
            "8": "beegfs-mgmtd --init --db-file /home/gpucluster/beegfs-management/mgmtd.sqlite"}[version]  # fmt: skip
    head.run("management", GENERATION="1").check_returncode()
    assert [call for call in head.changed() if call == made or call.startswith("systemctl restart")] == [
        made,
        started("beegfs-mgmtd"),
    ]
    (records / "who-serves").touch()
    head.run("management", GENERATION="1").check_returncode()
    assert head.changed() == []
    head.run("management", GENERATION="2").check_returncode()
    assert made in head.changed()
    assert not (records / "who-serves").exists()


def test_the_management_service_of_version_8_has_its_own_certificate(tmp_path: Path) -> None:
    head = Node(tmp_path, "head")
    head.run("management").check_returncode()
    (call,) = head.calls("openssl")
    assert "subjectAltName=DNS:head.c.internal,DNS:localhost,IP:127.0.0.1" in call
    assert head.file("/etc/beegfs/key.pem").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_mounts_for_all_users(tmp_path: Path, version: str) -> None:
    node = Node(tmp_path, "train-3", version=version)
    node.run("client", GENERATION="4").check_returncode()
    services = ["beegfs-helperd", "beegfs-client"] if version == "7.4" else ["beegfs-client"]
    assert [call for call in node.changed() if "restart" in call] == [started(each) for each in services]
    assert Path(node.mount).stat().st_mode & 0o7777 == 0o1777
    assert node.file("/run/gpucluster-beegfs").read_text() == "4\n"
    node.run("client", GENERATION="4").check_returncode()
    assert node.changed() == []


def test_a_node_that_serves_already_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    node.run("server", GENERATION="1").check_returncode()
    node.run("server", GENERATION="1").check_returncode()
    assert node.changed() == []


def test_after_a_loss_the_next_generation_is_empty(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    for verb in ("server", "client"):
        node.run(verb, GENERATION="1").check_returncode()
    chunk = node.file("/mnt/beegfs/storage/target/chunks")
    chunk.touch()
    node.run("server", GENERATION="2").check_returncode()
    changed = node.changed()
    let_go = [
        f"umount {node.mount.removeprefix(str(node.root))}",
        "umount /mnt/beegfs/storage",
        "umount /mnt/beegfs/meta",
    ]
    assert [call for call in changed if call.startswith("umount")] == let_go
    # No process may write to memory that is being freed.
    stopped = [changed.index(f"systemctl stop beegfs-{each}") for each in ("client", "storage", "meta")]
    assert stopped == sorted(stopped)
    assert stopped[-1] < changed.index("umount /mnt/beegfs/storage")
    assert not chunk.exists()
    assert node.file("/mnt/beegfs/storage/generation").read_text() == "2\n"
    assert not node.file("/run/gpucluster-beegfs").exists()


def test_leave_frees_the_memory(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    for verb in ("server", "client", "leave"):
        node.run(verb, GENERATION="1").check_returncode()
    assert node.file("mounted").read_text() == ""
    assert not list(node.file("active").iterdir())


@pytest.mark.parametrize(("version", "listed"), [("7.4", ["1", "2"]), ("8", ["2", "3"])])
def test_the_servers_that_registered_are_listed(tmp_path: Path, version: str, listed: list[str]) -> None:
    head = Node(tmp_path, "head", version=version)
    lines = head.run("list").stdout.splitlines()
    assert [line for line in lines if line.startswith("storage")] == [f"storage {number}" for number in listed]
    tool = {"7.4": "beegfs-ctl --listnodes --nodetype=storage",
            "8": "beegfs node list --node-type=storage --mgmtd-addr head.c.internal:8010"}[version]  # fmt: skip
    assert tool in head.calls("beegfs", "beegfs-ctl")


@pytest.mark.parametrize(
    ("name", "version", "wanted"),
    [
        ("train-1", "8", "beegfs-client beegfs-meta beegfs-storage"),
        ("train-1", "7.4", "beegfs-client beegfs-helperd beegfs-meta beegfs-storage"),
        ("head", "8", "beegfs-client beegfs-mgmtd"),
        ("other-1", "8", "beegfs-client"),
    ],
)
def test_a_machine_gets_the_packages_of_its_role(tmp_path: Path, name: str, version: str, wanted: str) -> None:
    node = Node(tmp_path, name, version=version)
    node.lacks(*(f"beegfs-{each}" for each in ("mgmtd", "meta", "storage", "client", "helperd")))
    (node.root / "etc/init.d/beegfs-client").unlink()
    node.run("install").check_returncode()
    (install,) = [call for call in node.calls("apt-get") if " install " in call]
    assert install.endswith(f"--no-install-recommends {wanted}")
    repository = {"7.4": "beegfs_7.4.6", "8": "beegfs_8.3"}[version]
    assert [re.findall(r"https://\S+", call)[0] for call in node.calls("curl")] == [
        f"https://www.beegfs.io/release/{repository}/gpg/GPG-KEY-beegfs",
        f"https://www.beegfs.io/release/{repository}/dists/beegfs-noble.list",
    ]


def test_an_image_with_beegfs_gets_no_package(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    node.run("install").check_returncode()
    assert node.calls("apt-get", "curl") == []


def test_an_image_with_another_version_is_refused(tmp_path: Path) -> None:
    done = Node(tmp_path, "train-1").run("install", PACKAGES="7.4.6")
    assert done.returncode == 1
    assert "this image has beegfs-client 7.4.6, but the cluster file requires BeeGFS 8" in done.stderr


def test_a_module_that_does_not_build_fails_the_boot_with_the_reason(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    node.file("module").unlink()
    node.command("opt/beegfs/sbin/beegfs-client", "echo 'build'; echo 'inode.c:12: error: too few arguments'; exit 2")
    done = node.run("install")
    assert done.returncode == 1
    assert "BeeGFS 8.3 has no client for kernel 6.8.0-test: inode.c:12: error: too few arguments" in done.stderr
    assert [call for call in node.calls("apt-get") if "linux-headers-6.8.0-test" in call]


def test_a_module_is_compiled_for_the_kernel_that_runs(tmp_path: Path) -> None:
    node = Node(tmp_path, "train-1")
    node.file("module").unlink()
    node.file("lib/modules/6.8.0-test/build").mkdir(parents=True)
    node.command("opt/beegfs/sbin/beegfs-client", 'touch "$ROOT/module"')
    node.run("install").check_returncode()
    assert node.calls("modprobe", "beegfs-client") == ["modprobe beegfs", "beegfs-client rebuild", "modprobe beegfs"]
    assert node.calls("apt-get") == []


def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    done = Node(tmp_path, "train-1").run("server", FAILS="beegfs-meta")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "beegfs-meta does not start: the service said why"


def test_a_server_that_failed_is_set_up_again(tmp_path: Path) -> None:
    """The mark of a complete set-up is missing."""
    node = Node(tmp_path, "train-1")
    node.run("server", FAILS="beegfs-storage")
    assert not node.file("/mnt/beegfs/storage/generation").exists()
    node.run("server").check_returncode()
    assert node.file("/mnt/beegfs/storage/generation").read_text() == "1\n"


BOOT = """
set -euo pipefail
STARTED=$ROOT BUNDLE=/bundle ROLE={role} BEEGFS_ROLE={beegfs}
this_partition() {{ :; }}
bash() {{ echo "bash $*"; }}
node_program() {{ :; }}
node_service() {{ echo "service $1"; }}
service_down() {{ echo "down $1"; }}
systemctl() {{ echo "systemctl $*"; }}
waits() {{ echo "waits $*"; }}
source "$ROOT/beegfs.sh"
step_beegfs
"""
INSTALL = "bash /bundle/beegfs.sh install"
ENDED = ["down gpucluster-beegfs_head", "systemctl stop beegfs-client beegfs-mgmtd"]


@pytest.mark.parametrize(
    ("role", "beegfs", "had", "does"),
    [
        ("head", "management", False, [INSTALL, "service beegfs_head"]),
        ("compute", "server", False, [INSTALL, "service beegfs_node", "waits beegfs.node --wait 300"]),
        ("compute", "client", False, [INSTALL, "service beegfs_node", "waits beegfs.node --wait 300"]),
        ("compute", "job", False, [INSTALL]),
        ("compute", "none", False, []),
        ("head", "none", False, []),
        ("head", "none", True, ENDED),  # the cluster file had one before
    ],
)
def test_a_boot_does_what_its_role_and_the_kind_of_beegfs_need(
    tmp_path: Path, role: str, beegfs: str, had: bool, does: list[str]
) -> None:
    text = source_of("beegfs").read_text().replace("/opt/gpucluster/bin/node-program", "waits")
    (tmp_path / "beegfs.sh").write_text(text)
    if had:
        (tmp_path / "gpucluster-beegfs_head").touch()
    script = BOOT.format(role=role, beegfs=beegfs)
    done = subprocess.run(
        ["bash", "-c", script], env={"ROOT": str(tmp_path), "PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, does), done.stderr
