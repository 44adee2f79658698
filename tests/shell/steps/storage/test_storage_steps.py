"""The steps that mount FSx and EFS, with stand-ins for mount and the kernel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_steps import BOOTSTRAP, OWNER, Machine, source_of

from localcloud.testing.recorded import recorded, recorded_line

OURS = (
    "files",
    "firewall",
    "mounts",
    "data_volume",
    "nfs_server",
    "ebs",
    "efs",
    "fsx",
    "nfs",
    "home_mount",
    "kernel",
    "lustre",
    "storage",
    "lustre_client",
    "lustre_efa",
    "storage_mounts",
    "storage_clients",
)
SOURCES = ("runner", "services", "apt", "nvidia", "this_machine", *OURS)
PLACES = (
    "/var/lib/gpucluster",
    "/var/log/gpucluster",
    "/run/gpucluster",
    "/proc/self/mountinfo",
    "/home",
    "/etc/fstab",
    "/etc/gpucluster",
    "/etc/systemd",
    "/etc/apt",
    "/etc/exports.d",
    "/etc/nfs.conf.d",
    "/etc/os-release",
    "/opt/gpucluster",
    "/opt/aws",
    "/usr/share/keyrings",
)
DNS = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com"
EFS_DNS = "fs-1.efs.us-east-1.amazonaws.com"
KERNEL = "6.17.0-1019-aws"


class Node:
    """Mounts are files in `mounted`; the head's results are in the folder that nodes read."""

    def __init__(self, root: Path, role: str) -> None:
        self.root, self.role, self.machine = root, role, Machine(root)
        for name in OURS:
            text = source_of(name).read_text().replace("root:root", OWNER)
            self.machine.step(name, re.sub(rf"({'|'.join(PLACES)})(?=[-/\s\"])", rf"{root}\1", text))
        self.machine.programs(*PLACES)
        for folder in ("mounted", "etc", "home/gpucluster", "home/ubuntu/.ssh", "run", "proc/self"):
            (root / folder).mkdir(parents=True)
        (root / "var/log/gpucluster").mkdir(parents=True)
        (root / "etc/fstab").write_text("LABEL=root / ext4 defaults 0 1\n")
        (root / "etc/os-release").write_text("ID=ubuntu\nVERSION_CODENAME=noble\n")
        self._commands()

    def _commands(self) -> None:
        command, key = self.machine.command, "tr / _ <<<${!#}"
        command("mount", f'touch "{self.root}/mounted/$({key})"')
        command("umount", f'rm "{self.root}/mounted/$({key})"')
        command("mountpoint", f'[ -e "{self.root}/mounted/$({key})" ]')
        command("uname", f"echo {KERNEL}")
        command("lfs", recorded_line("lustre/versions.txt", "lfs"))
        command("dpkg-query", 'printf "linux-aws ii\\nlinux-image-5.15 rc\\nlinux-image-6.17 ii\\n"')
        for name in ("mount.lustre", "modprobe", "apt-get", "apt-mark", "curl", "sleep", "df", "getent", "systemctl"):
            command(name)
        command("stunnel")
        command("hostname", "echo train-1")
        program = self.root / "opt/gpucluster/bin/node-program"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/bash\nif [ "$2" = resolve ]; then cat "{self.root}/found.json"; exit; fi\n'
            f'PYTHONPATH={BOOTSTRAP} exec {sys.executable} -m "gpucluster_node.$1" "${{@:2}}"\n'
        )
        program.chmod(0o755)

    def has(self, *mounts: dict[str, Any]) -> None:
        """The storages of the cluster. Their paths are below the scratch folder."""
        text = json.dumps({"mounts": [{**each, "mount": f"{self.root}{each['mount']}"} for each in mounts]}, indent=2)
        for name in ("found.json", "bundle/storage.json"):
            (self.root / name).write_text(text)
        if self.role == "compute":
            (self.root / "home/gpucluster/storage.json").write_text(text)

    def run(self, *steps: str, header: str = "") -> subprocess.CompletedProcess[str]:
        lines = [
            f"ROLE={self.role} HOME_ON=head-nfs NFS_PORT=296 ZONE=c.internal",
            'report_failure() { echo "REPORTED $1"; }',
            "node_program() { :; }",
            "this_machine() { EFA_INTERFACES=8 LUSTRE_OVER_EFA=yes; }",
            "this_partition() { EFA=yes; }",
            header,
            *(f"run_step {step}" for step in steps),
        ]
        return self.machine.run("\n".join(lines), *SOURCES)

    def asked(self, command: str) -> list[str]:
        """A command's calls, without the scratch folder."""
        calls = [call.replace(str(self.root), "") for call in self.machine.calls()]
        return [call.removeprefix(f"{command} ") for call in calls if call.startswith(f"{command} ")]

    def fstab(self) -> list[str]:
        return (self.root / "etc/fstab").read_text().replace(str(self.root), "").splitlines()[1:]


@pytest.fixture
def head(tmp_path: Path) -> Node:
    return Node(tmp_path, "head")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "compute")


def fsx(mount: str = "/fsx", **more: Any) -> dict[str, Any]:
    known = {"dns_name": DNS, "mount_name": "abcdefgh", "version": "2.15", "efa": False, "for_everybody": ["/"]}
    return {"mount": mount, "type": "fsx-lustre", **known, **more}


def efs(mount: str = "/efs") -> dict[str, Any]:
    return {"mount": mount, "type": "efs", "dns_name": EFS_DNS, "for_everybody": ["/"]}


def last_error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    return next(line for line in done.stdout.splitlines() if line.startswith("REPORTED "))


LUSTRE_LINE = f"{DNS}@tcp:/abcdefgh /fsx lustre noatime,flock,_netdev,nofail 0 0"


def test_lustre_is_mounted_now_and_at_each_boot_and_a_second_run_changes_nothing(node: Node) -> None:
    node.has(fsx())
    for _ in range(2):
        done = node.run("lustre_client", "storage_mounts")
        assert done.returncode == 0, done.stderr
    assert node.asked("mount") == [f"-t lustre -o noatime,flock {DNS}@tcp:/abcdefgh /fsx"]
    assert node.fstab() == [LUSTRE_LINE]
    assert f"Lustre client 2.15.6, kernel {KERNEL}" in done.stdout
    assert not node.asked("apt-get"), "the image has the client"
    assert set(node.asked("apt-mark")) == {"hold linux-aws linux-image-6.17"}


def test_a_cluster_without_lustre_needs_no_client(node: Node) -> None:
    node.machine.command("modprobe", "exit 1")
    node.has(efs())
    assert node.run("lustre_client", "lustre_efa").returncode == 0
    assert not node.asked("modprobe") and not node.asked("apt-mark")


def test_the_client_of_the_running_kernel_is_installed_where_it_is_missing(node: Node) -> None:
    node.machine.command("modprobe", '[ -e "$ROOT/installed" ]')
    node.machine.command("apt-get", '[[ $* != *lustre-client-modules* ]] || touch "$ROOT/installed"')
    node.has(fsx())
    done = node.run("lustre_client")
    assert done.returncode == 0, done.stderr
    (installed,) = [call for call in node.asked("apt-get") if "lustre" in call]
    assert installed.endswith(f" lustre-client-modules-{KERNEL} lustre-client-utils")
    (line,) = (
        (node.root / "etc/apt/sources.list.d/fsx-lustre.list").read_text().replace(str(node.root), "").splitlines()
    )
    assert line == (
        "deb [signed-by=/usr/share/keyrings/fsx-lustre.asc] https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu "
        "noble main"
    )


def test_an_image_contains_the_clients_of_its_clusters_file_systems(node: Node) -> None:
    node.machine.command("modprobe", '[ -e "$ROOT/installed" ]')
    node.machine.command("apt-get", '[[ $* != *lustre-client-modules* ]] || touch "$ROOT/installed"')
    (node.machine.bin / "stunnel").unlink()
    folder = node.root / "opt/aws/configure-efa-fsx-lustre-client"
    node.machine.command("python3", f'mkdir -p "${{@: -1}}/{folder.name}" && touch "${{@: -1}}/{folder.name}/setup.sh"')
    done = node.run("storage_clients", header="ROLE=image FILE_SYSTEMS=(efs fsx fsx-efa)")
    assert done.returncode == 0, done.stdout + done.stderr
    installed = [call.split()[-1] for call in node.asked("apt-get") if " install " in f" {call} "]
    assert installed == ["stunnel4", "lustre-client-utils"]
    assert (folder / "setup.sh").exists()
    assert not node.asked("mount")


CLIENT_REFUSED = {
    "no package": ({"apt-get": "[[ $* != *lustre* ]]", "modprobe": "exit 1"}, f"no Lustre client for kernel {KERNEL}"),
    "no module": ({"modprobe": "exit 1"}, f"kernel {KERNEL} does not load Lustre's module"),
    "no network": ({"curl": "exit 6", "modprobe": "exit 1"}, "cannot fetch https://fsx-lustre-client-repo"),
}


@pytest.mark.parametrize("name", CLIENT_REFUSED)
def test_a_kernel_without_a_client_ends_the_boot_with_the_reason(node: Node, name: str) -> None:
    commands, why = CLIENT_REFUSED[name]
    for command, body in commands.items():
        node.machine.command(command, body)
    node.has(fsx())
    assert why in last_error(node.run("lustre_client"))


@pytest.mark.parametrize("name", CLIENT_REFUSED)
def test_a_head_without_a_client_serves_without_lustre_and_says_why(head: Node, name: str) -> None:
    """Compute nodes still get the file system's address; each reports whether its own kernel has a client."""
    commands, why = CLIENT_REFUSED[name]
    for command, body in commands.items():
        head.machine.command(command, body)
    head.has(fsx())
    note = head.root / "var/lib/gpucluster/lustre.missing"
    done = head.run("storage_mounts", header='try_step lustre_client "$LUSTRE_MISSING"')
    assert done.returncode == 0, done.stdout
    assert "REPORTED" not in done.stdout and not head.asked("mount")
    assert note.read_text().startswith("step=lustre_client line=") and why in note.read_text()
    assert json.loads((head.root / "home/gpucluster/storage.json").read_text())["mounts"]

    for command in commands:
        head.machine.command(command)
    assert head.run("storage_mounts", header='try_step lustre_client "$LUSTRE_MISSING"').returncode == 0
    assert not note.exists() and head.asked("mount")


def test_a_mount_is_retried_until_it_succeeds(node: Node) -> None:
    node.machine.command(
        "mount", '[ "$(grep -c "^mount -t" "$ROOT/calls")" -ge 3 ] && touch "$ROOT/mounted/$(tr / _ <<<${!#})"'
    )
    node.has(fsx())
    assert node.run("storage_mounts").returncode == 0
    assert node.asked("sleep") == ["2", "5"]


MOUNT_REFUSED = {
    "no such name": ({"getent": "exit 2"}, f"/fsx: {DNS} does not resolve: the VPC needs DNS"),
    "a closed port": ({"timeout": '[ "$2" != bash ] && shift && exec "$@"'},
                      f"/fsx: {DNS}:988 is closed: its security group must admit this node"),
    "refused": ({"timeout": 'shift; [ "$1" = bash ] || exec "$@"'}, f"/fsx: {DNS}: Invalid argument"),
}  # fmt: skip


@pytest.mark.parametrize("name", MOUNT_REFUSED)
def test_a_mount_that_stays_refused_ends_the_boot_with_the_reason(node: Node, name: str) -> None:
    commands, why = MOUNT_REFUSED[name]
    node.machine.command("mount", 'echo -e "mount x failed: Invalid argument\\nAre the options right?" >&2; exit 22')
    for command, body in commands.items():
        node.machine.command(command, body)
    node.has(fsx())
    done = node.run("storage_mounts")
    assert last_error(done)
    said = done.stderr.replace(str(node.root), "").splitlines()[-1]
    assert said.startswith(why) and len(said) <= 150, "a longer one would be cut"
    assert len(node.asked("mount")) == 6
    assert f"client kernel {KERNEL}, Lustre 2.15.6, file system 2.15" in done.stdout


def test_efs_is_mounted_through_tls_and_each_has_its_own_tunnel(node: Node) -> None:
    node.has(efs(), efs("/more"))
    for _ in range(2):
        done = node.run("storage_mounts")
        assert done.returncode == 0, done.stderr
    options = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,noatime,port="
    assert node.asked("mount") == [
        f"-t nfs4 -o {options}225 127.0.0.1:/ /efs",
        f"-t nfs4 -o {options}226 127.0.0.1:/ /more",
    ]
    (first, _) = sorted((node.root / "etc/gpucluster/tunnels").iterdir())
    conf = first.read_text().splitlines()
    assert {f"connect = {EFS_DNS}:2049", f"checkHost = {EFS_DNS}", "verifyChain = yes", "client = yes"} <= set(conf)
    service = first.stem
    assert all(f"x-systemd.requires={tunnel.stem}.service" in line for tunnel, line in zip(
        sorted((node.root / "etc/gpucluster/tunnels").iterdir()), node.fstab(), strict=True))  # fmt: skip
    assert f"restart {service}" in node.asked("systemctl")


def test_an_access_point_is_in_the_certificate_of_the_tunnel(node: Node) -> None:
    node.has({**efs(), "mount_name": "fsap-0123456789abcdef0"})
    for _ in range(2):
        done = node.run("storage_mounts")
        assert done.returncode == 0, done.stderr
    tunnels = node.root / "etc/gpucluster/tunnels"
    (conf,) = tunnels.glob("*.conf")
    folder = tunnels / conf.stem
    assert {f"cert = {folder}/certificate.pem", f"key = {folder}/key.pem"} <= set(conf.read_text().splitlines())
    units = node.root / "etc/systemd/system"
    makes = f"{node.root}/opt/gpucluster/bin/efs-certificate {folder} fs-1 fsap-0123456789abcdef0"
    assert f"ExecStartPre={makes}\n" in (units / f"{conf.stem}.service").read_text()
    assert f"ExecStart={makes} {conf.stem}\n" in (units / f"{conf.stem}-certificate.service").read_text()
    assert "OnUnitActiveSec=1h" in (units / f"{conf.stem}-certificate.timer").read_text()
    node.has(efs())
    node.run("storage_mounts").check_returncode()
    assert node.asked("umount") == ["/efs"] and len(node.asked("mount")) == 2, "the whole file system now"
    node.has()
    node.run("storage_mounts").check_returncode()
    assert not list(tunnels.iterdir()) and not list(units.glob(f"{conf.stem}*"))


def test_the_certificate_names_the_access_point_for_three_hours(node: Node) -> None:
    """By the real openssl. efs-utils has the same extensions: mount_efs, ca_extension_builder."""
    program, folder = BOOTSTRAP / "programs/bin/efs-certificate", node.root / "certificate"
    for _ in range(2):
        subprocess.run(["bash", program, folder, "fs-1", "fsap-0123456789abcdef0"], check=True)
    shown = subprocess.run(
        ["openssl", "x509", "-in", folder / "certificate.pem", "-noout", "-text", "-checkend", "10800"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 1, "it ends within three hours"
    assert re.search(r"1\.3\.6\.1\.4\.1\.4843\.7\.1: *\n.*fsap-0123456789abcdef0", shown.stdout)
    assert re.search(r"1\.3\.6\.1\.4\.1\.4843\.7\.3: *\n.*fs-1\n", shown.stdout)
    assert (folder / "key.pem").stat().st_mode & 0o77 == 0


def test_a_tunnel_without_a_port_ends_the_boot_with_the_reason(node: Node) -> None:
    node.has(*(efs(f"/efs{number}") for number in range(18)))
    done = node.run("storage_mounts")
    assert done.returncode == 1
    assert "no port is left for a tunnel to EFS (225 to 241): cluster.yaml may have 17 EFS file systems" in last_error(
        done
    )


def test_the_head_publishes_only_file_systems_that_it_has_mounted(head: Node) -> None:
    published_file = head.root / "home/gpucluster/storage.json"
    head.has(fsx())
    head.machine.command("mount", "exit 32")
    assert head.run("storage_mounts").returncode == 1
    assert not published_file.exists()
    head.machine.command("mount", 'touch "$ROOT/mounted/$(tr / _ <<<${!#})"')
    assert head.run("storage_mounts").returncode == 0
    assert json.loads(published_file.read_text()) == json.loads((head.root / "found.json").read_text())


def test_file_systems_removed_from_the_cluster_are_unmounted(head: Node) -> None:
    head.has(fsx(), efs("/old"))
    assert head.run("storage_mounts").returncode == 0
    assert list((head.root / "etc/gpucluster/tunnels").iterdir())
    head.has(fsx())
    assert head.run("storage_mounts").returncode == 0
    assert head.asked("umount") == ["/old"]
    assert head.fstab() == [LUSTRE_LINE]
    assert not list((head.root / "etc/gpucluster/tunnels").iterdir())
    assert any("disable --now gpucluster-efs-" in call for call in head.asked("systemctl"))
    head.has()
    assert head.run("storage_mounts").returncode == 0
    assert (head.asked("umount"), head.fstab()) == (["/old", "/fsx"], [])


def test_a_file_system_in_use_is_not_unmounted_by_force(head: Node) -> None:
    head.has(fsx())
    head.run("storage_mounts").check_returncode()
    head.has()
    head.machine.command("umount", "echo target is busy >&2; exit 32")
    assert "/fsx is in use and cannot be unmounted" in last_error(head.run("storage_mounts"))
    assert head.fstab() == [LUSTRE_LINE]


@pytest.mark.skipif(OWNER != "root:root", reason="only root's directories are opened")
def test_all_users_may_write_to_folders_that_aws_gave_to_root(head: Node) -> None:
    places = {"": 0o755, "results": 0o755, "theirs": 0o700, "data": 0o755}
    for name, mode in places.items():
        (head.root / "fsx" / name).mkdir()
        (head.root / "fsx" / name).chmod(mode)
    head.has(fsx(for_everybody=["/", "/results", "/theirs/", "/missing"]))
    assert head.run("storage_mounts").returncode == 0
    modes = {name: (head.root / "fsx" / name).stat().st_mode & 0o7777 for name in places}
    assert modes == {"": 0o1777, "results": 0o1777, "theirs": 0o700, "data": 0o755}


@pytest.mark.skipif(OWNER != "root:root", reason="only root's directories are opened")
def test_no_mode_changes_on_a_file_system_that_is_not_the_clusters(head: Node) -> None:
    for name in ("fsx", "fsx-"):
        (head.root / name).mkdir()
        (head.root / name).chmod(0o755)
    head.has(fsx(for_everybody=[]))
    assert head.run("storage_mounts").returncode == 0
    assert [(head.root / name).stat().st_mode & 0o7777 for name in ("fsx", "fsx-")] == [0o755, 0o755]


def test_before_a_job_missing_file_systems_are_mounted(node: Node) -> None:
    node.has(fsx())
    node.run("storage_mounts").check_returncode()
    hook = node.root / "opt/gpucluster/prolog.d/10-storage"
    kernels = node.root / "proc/self/mountinfo"
    (node.root / "bundle/compute.sh").write_text(f'echo "again $1" >>"{node.root}/calls"\n')
    as_it_was = (f"36 35 0:1 / {node.root}/fsx rw - lustre\n", (fsx(),), 0)
    added = (as_it_was[0], (fsx(), efs()), 1)
    come_loose = ("36 35 0:1 / / rw - ext4\n", (fsx(),), 2)
    for mounted, wanted, runs in (as_it_was, added, come_loose):
        kernels.write_text(mounted)
        node.has(*wanted)
        subprocess.run([hook], check=True)
        assert node.machine.calls().count("again storage") == runs


NET_WITH_EFA = recorded("lnetctl/net-show.txt")


def test_lustre_uses_efa_if_machine_and_file_system_support_it(node: Node) -> None:
    node.machine.command("lnetctl", f'if [ -e "$ROOT/efa" ]; then {NET_WITH_EFA}; fi')
    node.machine.command("lustre_rmmod")
    setup = node.root / "opt/aws/configure-efa-fsx-lustre-client/setup.sh"
    setup.parent.mkdir(parents=True)
    setup.write_text(f'echo setup >>"{node.root}/calls"\ntouch "{node.root}/efa"\n')
    node.has(fsx(efa=True))
    for _ in range(2):
        done = node.run("lustre_efa")
        assert done.returncode == 0, done.stderr
    assert "Lustre over EFA: 1 interfaces" in done.stdout
    order = [call for call in node.machine.calls() if call.split()[0] in ("lustre_rmmod", "setup", "modprobe")]
    assert order == ["lustre_rmmod ", "setup", "modprobe lustre"], "once, and the modules are loaded anew"


EFA_REFUSED = {
    "no interface comes up": ({"lustre_rmmod": ""}, "LNet has no EFA interface after AWS's set-up"),
    "modules in use": ({"lustre_rmmod": "exit 1"}, "Lustre's modules are in use"),
}


@pytest.mark.parametrize("name", EFA_REFUSED)
def test_lustre_does_not_silently_fall_back_to_tcp(node: Node, name: str) -> None:
    commands, why = EFA_REFUSED[name]
    for command, body in {"lnetctl": "", **commands}.items():
        node.machine.command(command, body)
    setup = node.root / "opt/aws/configure-efa-fsx-lustre-client/setup.sh"
    setup.parent.mkdir(parents=True)
    setup.write_text("true\n")
    node.has(fsx(efa=True))
    assert why in last_error(node.run("lustre_efa"))


@pytest.mark.parametrize(
    "header", ["this_machine() { LUSTRE_OVER_EFA=no; }", "this_partition() { EFA=no; }"], ids=["machine", "partition"]
)
def test_a_node_without_efa_for_lustre_reports_it_and_uses_tcp(node: Node, header: str) -> None:
    node.machine.command("lnetctl")
    node.has(fsx(efa=True))
    done = node.run("lustre_efa", header=header)
    assert done.returncode == 0
    assert "Lustre is reached over TCP" in done.stdout
    assert not node.asked("lnetctl")


HOME_ON_EFS = 'HOME_ON=efs; parameter() { echo "$1" >>"$ROOT/asked"; echo fs-1.efs.us-east-1.amazonaws.com; }'
HOME_ON_LUSTRE = "HOME_ON=fsx-lustre"
HOME_ON_ZFS = "HOME_ON=fsx-openzfs"
NFS = "nfs4 -o noatime,hard,timeo=600,nconnect=16"


def home_elsewhere(node: Node) -> None:
    """/home is in the scratch folder, and its file system in `elsewhere`."""
    node.machine.command(
        "mount",
        'touch "$ROOT/mounted/$(tr / _ <<<${!#})"; case ${!#} in /tmp/tmp.*) ln -sfn ${!#} "$ROOT/aside";; esac',
    )
    node.machine.command("umount", f'rm "$ROOT/mounted/$(tr / _ <<<${{!#}})"; mv $1 {node.root}/elsewhere; mkdir $1')
    python = f'[[ $* != *gpucluster_node.addresses\\ home ]] || {{ printf "{DNS}\\tabcdefgh\\t2.15\\n"; exit; }}'
    node.machine.command("python3", f'{python}\nexec {sys.executable} "$@"')
    text = source_of("home_mount").read_text().replace("root:root", OWNER).replace("/home", f"{node.root}/home")
    node.machine.step("home_mount", text.replace(f"storage{node.root}/home", "storage/home"))


@pytest.mark.parametrize(("header", "source"), [
    (HOME_ON_EFS, "nfs4 -o nfsvers=4.1,"), (HOME_ON_LUSTRE, f"lustre -o noatime,flock {DNS}@tcp:/abcdefgh"),
    (HOME_ON_ZFS, f"{NFS} {DNS}:abcdefgh"), (HOME_ON_ZFS.replace("openzfs", "ontap"), f"{NFS} {DNS}:abcdefgh"),
])  # fmt: skip
def test_home_elsewhere_keeps_the_users_of_the_image(head: Node, header: str, source: str) -> None:
    """It is first mounted elsewhere, and the login user's directory is copied there before the mount would hide it."""
    (head.root / "home/ubuntu/.ssh/authorized_keys").write_text("key\n")
    home_elsewhere(head)
    done = head.run("home_mount", header=header)
    assert done.returncode == 0, done.stderr
    assert (head.root / "elsewhere/ubuntu/.ssh/authorized_keys").read_text() == "key\n"
    assert [call.split()[-1] for call in head.asked("mount")][1:] == ["/home"]
    assert all(call.startswith(f"-t {source}") for call in head.asked("mount"))
    assert [line.split()[1] for line in head.fstab()] == ["/home"]
    if header == HOME_ON_EFS:
        assert (head.root / "asked").read_text() == "storage/home\n"
    assert bool(head.asked("apt-mark")) is (header == HOME_ON_LUSTRE), "Lustre's client comes first"


def test_volumes_of_openzfs_and_ontap_are_mounted_over_nfs(node: Node) -> None:
    known = {"dns_name": DNS, "mount_name": "/fsx/vol1", "version": "", "for_everybody": []}
    node.has({"mount": "/zfs", "type": "fsx-openzfs", **known}, {"mount": "/ontap", "type": "fsx-ontap", **known})
    done = node.run("lustre_client", "storage_mounts")
    assert done.returncode == 0, done.stderr
    assert node.asked("mount") == [f"-t {NFS} {DNS}:/fsx/vol1 {mount}" for mount in ("/zfs", "/ontap")]
    assert node.fstab()[0] == f"{DNS}:/fsx/vol1 /zfs {NFS.replace(' -o', '')},_netdev,nofail 0 0"
    assert not node.asked("apt-mark"), "no client of Lustre"


def test_home_that_root_may_not_write_ends_the_boot_with_the_reason(node: Node) -> None:
    home_elsewhere(node)
    done = node.run("home_mount", header=f"{HOME_ON_LUSTRE}; put_directory() {{ return 1; }}")
    assert last_error(done)
    assert "squashes root, who makes home directories: it needs no_root_squash" in done.stderr


def test_compute_nodes_mount_the_heads_home_or_efs(node: Node) -> None:
    text = source_of("home_mount").read_text().replace("root:root", OWNER).replace(" /home", f" {node.root}/home")
    node.machine.step("home_mount", text.replace("/etc/fstab", f"{node.root}/etc/fstab"))
    node.run("home_mount").check_returncode()
    assert node.asked("mount") == ["-t nfs4 -o nfsvers=4.2,port=296,noatime,hard,_netdev head.c.internal:/home /home"]
