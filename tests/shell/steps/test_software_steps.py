"""The steps of GPUs and EFA: they verify an image's software, install what is missing, and refuse wrong versions."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from test_steps import OWNER, Machine, source_of

from gpucluster import render
from gpucluster.hardware.instances import INSTANCE_TYPES
from localcloud.ec2 import catalogue
from localcloud.machines.image import GUEST_FILES
from localcloud.testing.recorded import record, recorded

ROOT = Path(__file__).resolve().parents[3]
SOFTWARE = ("nvidia_driver", "fabric_manager", "cuda", "nccl", "gdrcopy", "efa", "dcgm")
OTHERS = ("this_machine", "nvidia", "job_environment", "container_runtime")
SOURCES = ("runner", "files", "services", "apt", "this_machine", "nvidia", *SOFTWARE)
PLACES = (
    "/usr/local/cuda",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/opt/amazon",
    "/opt/nvidia",
    "/etc/os-release",
    "/etc/gpucluster",
    "/etc/sysctl.d",
    "/etc/tmpfiles.d",
    "/etc/enroot",
    "/run/enroot",
    "/var/lib/enroot",
)


class Node:
    """A machine of an instance type. The steps see only the image's files below `root`."""

    def __init__(self, folder: Path, type_: str, root: Path) -> None:
        self.machine, self.type = Machine(folder), type_
        for name in (*OTHERS, *SOFTWARE):
            text = source_of(name).read_text().replace("root:root", OWNER)
            text = text.replace("/etc/ld.so.conf.d", f"{folder}/etc/ld.so.conf.d")
            for place in PLACES:
                text = text.replace(place, f"{root}{place}")
            self.machine.step(name, text)
        (folder / "bundle/machines").mkdir()
        (folder / f"bundle/machines/{type_}.sh").write_text(render.machine(INSTANCE_TYPES[type_]))
        (folder / "hardware.json").write_text(json.dumps(dataclasses.asdict(catalogue.hardware(type_))))
        for name in ("systemctl", "sleep", "modprobe", "ldconfig"):
            self.machine.command(name)
        self.machine.command("hostname", "echo train-1")

    def run(self, *steps: str, path: str = "", header: str = "") -> tuple[int, str]:
        """Exit code and all output."""
        lines = [
            f"imds() {{ echo {self.type}; }}",
            f"ROLE=compute LOCALCLOUD_RUN={self.machine.root}; export LOCALCLOUD_RUN",
            f"PATH={self.machine.bin}:{path}/usr/bin:/bin",
            "report_failure() { :; }",
            "this_partition() { EFA=yes; }",
            header,
            *(f"run_step {step}" for step in steps),
        ]
        done = self.machine.run("\n".join(lines), *SOURCES, "job_environment", "container_runtime")
        return done.returncode, done.stdout + done.stderr

    def asked_for(self, command: str) -> list[str]:
        return [call for call in self.machine.calls() if call.startswith(f"{command} ") and "update" not in call]


SAID = {
    "g5.12xlarge": ["NVIDIA driver 595.91.07", "GPUs 4", "CUDA 13.2", "NCCL 2.29.7", "EFA installer 1.50.0",
                    "aws-ofi-nccl 1.21.1", "EFA interfaces 1", "DCGM 4.7.0"],
    "g4dn.xlarge": ["NVIDIA driver 595.91.07", "GPUs 1", "CUDA 13.2", "NCCL 2.29.7", "DCGM 4.7.0"],
    "p4d.24xlarge": ["NVIDIA driver 595.91.07", "GPUs 8", "fabric manager 595.91.07", "CUDA 13.2", "NCCL 2.29.7",
                     "GDRCopy 2.5.2", "EFA installer 1.50.0", "aws-ofi-nccl 1.21.1", "EFA interfaces 4", "DCGM 4.7.0"],
    "p5.48xlarge": ["NVIDIA driver 595.91.07", "GPUs 8", "fabric manager 595.91.07", "CUDA 13.2", "NCCL 2.29.7",
                    "GDRCopy 2.5.2", "EFA installer 1.50.0", "aws-ofi-nccl 1.21.1", "EFA interfaces 32", "DCGM 4.7.0"],
    "p3dn.24xlarge": ["NVIDIA driver 580.95.05", "GPUs 8", "CUDA 12.8", "NCCL 2.29.7", "EFA installer 1.50.0",
                      "aws-ofi-nccl 1.21.1", "EFA interfaces 1", "DCGM 4.7.0"],
    "c5n.18xlarge": ["EFA installer 1.50.0", "EFA interfaces 1"],
    "m5.large": [],
}  # fmt: skip


@pytest.mark.parametrize("type_", SAID)
def test_a_suitable_image_is_verified_and_nothing_is_installed(tmp_path: Path, type_: str) -> None:
    """The local cloud's own image, whose stand-ins report what a Deep Learning AMI has."""
    node = Node(tmp_path, type_, GUEST_FILES)
    for command in ("apt-get", "curl"):
        node.machine.command(command, "exit 1")
    code, said = node.run(*SOFTWARE, path=f"{GUEST_FILES}/usr/bin:")
    assert code == 0, said
    versions = [line.partition(" ")[2] for line in said.splitlines() if "step=" not in line]
    assert versions == SAID[type_]
    assert not node.asked_for("apt-get") and not node.asked_for("curl")


def test_nccl_finds_its_plugin(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.12xlarge", GUEST_FILES)
    for _ in range(2):
        assert node.run("efa", path=f"{GUEST_FILES}/usr/bin:")[0] == 0
    text = (tmp_path / "etc/ld.so.conf.d/gpucluster-ofi-nccl.conf").read_text()
    assert text == f"{GUEST_FILES}/opt/amazon/ofi-nccl/lib\n"
    assert node.machine.calls().count("ldconfig ") == 1


FM = "nv-fabricmanager/version.txt"


def smi(driver: str, fabric: str) -> str:
    """nvidia-smi with the arguments of fabric manager's step."""
    return f'case "$*" in -q) {recorded(f"nvidia-smi/{fabric}")} ;; *) echo {driver} ;; esac'


def listed(count: int) -> str:
    """`nvidia-smi -L` with `count` GPUs."""
    return "; ".join(recorded("nvidia-smi/list-gpus-line.txt", gpu=f"GPU {number}:") for number in range(count))


LOST, MIG = (recorded(f"nvidia-smi/{name}.txt") for name in ("gpu-lost", "list-gpus-a100"))
OLD_SMI = 'case "$*" in *driver_version*) echo 550.54.15 ;; *) echo "GPU 0: x" ;; esac'
REFUSED = {
    "a driver too old": (
        "g4dn.xlarge", "nvidia_driver", {"nvidia-smi": OLD_SMI},
        "NVIDIA driver 550.54.15 does not suit g4dn.xlarge, expected 580.65 or newer",
    ),
    "a driver too new for V100": (
        "p3dn.24xlarge", "nvidia_driver", {"nvidia-smi": OLD_SMI.replace("550.54.15", "595.71.05")},
        "NVIDIA driver 595.71.05 does not suit p3dn.24xlarge, expected 535 or newer, and older than 590",
    ),
    "a driver without its kernel module": (
        "g5.xlarge", "nvidia_driver", {"nvidia-smi": recorded("nvidia-smi/no-driver.txt") + "; exit 9"},
        "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    ),
    "a GPU that is gone": (
        "g5.12xlarge", "nvidia_driver",
        {"nvidia-smi": f'case "$*" in *driver_version*) echo 580.95.05 ;; *) {listed(3)} ;; esac'},
        "nvidia-smi lists 3 GPUs, g5.12xlarge has 4",
    ),
    "GPUs of which one is lost": (
        "g5.12xlarge", "nvidia_driver",
        {"nvidia-smi": f'case "$*" in *driver_version*) echo 580.95.05 ;; *) {listed(3)}; {LOST} ;; esac'},
        "nvidia-smi lists 3 GPUs, g5.12xlarge has 4",
    ),
    "GPUs that are cut into MIG devices": (
        "g5.48xlarge", "nvidia_driver",
        {"nvidia-smi": f'case "$*" in *driver_version*) echo 580.95.05 ;; *) {MIG} ;; esac'},
        "nvidia-smi lists 4 GPUs, g5.48xlarge has 8",
    ),
    "another fabric manager": (
        "p4d.24xlarge", "fabric_manager",
        {"nvidia-smi": "echo 580.95.05", "nv-fabricmanager": recorded(FM, version="580.82.07")},
        "fabric manager 580.82.07 does not suit the driver 580.95.05",
    ),
    "no fabric manager of the driver's version": (
        "p5.48xlarge", "fabric_manager",
        {"nvidia-smi": "echo 580.178.04", "dpkg-query": "", "apt-get": "",
         "apt-cache": recorded("apt-cache/madison-nvidia-fabricmanager-580.txt", version="580.173.02")},
        "apt has no nvidia-fabricmanager 580.178.04, the driver's version",
    ),
    "a fabric that does not come up": (
        "p5.48xlarge", "fabric_manager",
        {"nvidia-smi": smi("580.95.05", "q-fabric-in-progress-h100.txt"),
         "nv-fabricmanager": recorded(FM, version="580.95.05")},
        "NVLink's fabric is not ready, nvidia-smi -q shows: In Progress N/A",
    ),
    "DCGM that says nothing": (
        "g5.xlarge", "dcgm", {"dcgmi": "exit 0"}, "DCGM: not found on this image, expected 4.0 or newer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_unsuitable_software_fails_the_boot_and_is_named(tmp_path: Path, case: str) -> None:
    type_, step, commands, why = REFUSED[case]
    node = Node(tmp_path, type_, tmp_path / "image")
    for name, body in commands.items():
        node.machine.command(name, body)
    code, said = node.run(step)
    assert code == 1 and why in said, said


H100 = ROOT / "tests/data/health/query-h100-580.txt"


def test_the_fabric_of_a_gpu_alone_is_not_awaited(tmp_path: Path) -> None:
    """In the answer of a real driver 580, another line before the section contains the word Fabric."""
    node = Node(tmp_path, "p5.48xlarge", tmp_path / "image")
    node.machine.command("nvidia-smi", f"cat {H100}")
    done = node.machine.run("nvidia_smi -q | fabric_states; await_fabric", *SOURCES)
    assert (done.returncode, done.stdout) == (0, "N/A\n"), done.stderr


def test_the_proofs_facts_have_the_section_of_the_fabric(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.command("nvidia-smi", f'case "$*" in -q) cat {H100} ;; esac')
    done = machine.run(f"PATH={machine.bin}:/usr/bin:/bin bash {ROOT}/examples/proof/programs/facts.sh")
    lines = done.stdout.partition("Fabric$")[2].partition("\n")[2].splitlines()
    assert [line.split() for line in lines[:3]] == [["Fabric"], ["State", ":", "N/A"], ["Status", ":", "N/A"]]


@pytest.mark.parametrize(
    ("type_", "record"),
    [
        ("p4d.24xlarge", "p4d-4efa-libfabric1.11-rdm.txt"),
        ("p4de.24xlarge", "p4de-4efa-libfabric1.19-rdm.txt"),
        ("g5.12xlarge", "efa-libfabric1.22.txt"),
        ("g5.12xlarge", "efa-libfabric2.1.txt"),
        ("g5.12xlarge", "efa-libfabric2.6.txt"),
    ],
)
def test_an_interface_is_counted_once_for_all_versions_of_libfabric(tmp_path: Path, type_: str, record: str) -> None:
    node = Node(tmp_path, type_, GUEST_FILES)
    node.machine.command("fi_info", recorded(f"fi_info/{record}"))
    code, said = node.run("efa")
    assert code == 0 and f"EFA interfaces {INSTANCE_TYPES[type_].efa_interfaces}\n" in said, said


def test_missing_interfaces_fail_unless_efa_is_off(tmp_path: Path) -> None:
    node = Node(tmp_path, "p4d.24xlarge", GUEST_FILES)
    node.machine.command("fi_info", recorded("fi_info/efa-libfabric2.6.txt"))
    code, said = node.run("efa")
    assert code == 1 and "fi_info lists 1 EFA interfaces, p4d.24xlarge has 4" in said
    code, said = node.run("efa", header="this_partition() { EFA=no; }")
    assert code == 0 and "EFA installer" not in said


@pytest.mark.parametrize(
    ("type_", "fabric"),
    [
        ("p5.48xlarge", "q-fabric-completed-h100.txt"),
        ("p4d.24xlarge", "q-fabric-a100.txt"),
        ("p4d.24xlarge", "q-fabric-newer-driver.txt"),
    ],
)
def test_gpus_are_ready_when_registered_with_their_fabric(tmp_path: Path, type_: str, fabric: str) -> None:
    node = Node(tmp_path, type_, tmp_path / "image")
    node.machine.command("nvidia-smi", smi("535.161.08", fabric))
    node.machine.command("nv-fabricmanager", recorded(FM))
    code, said = node.run("fabric_manager")
    assert code == 0 and "fabric manager 535.161.08" in said, said
    assert not node.asked_for("sleep")


@pytest.mark.parametrize(
    ("version", "madison", "package"),
    [
        ("580.95.05", "madison-nvidia-fabricmanager-580.txt", "nvidia-fabricmanager=580.95.05-1"),
        ("450.51.06", "madison-cuda-drivers-fabricmanager-450.txt", "cuda-drivers-fabricmanager-450=450.51.06-1"),
        ("580.95", "madison-nvidia-fabricmanager-580.txt", ""),
    ],
)
def test_a_package_of_the_drivers_version_is_found(tmp_path: Path, version: str, madison: str, package: str) -> None:
    node = Node(tmp_path, "p5.48xlarge", tmp_path / "image")
    node.machine.command("apt-cache", recorded(f"apt-cache/{madison}"))
    done = node.machine.run(f"PATH={node.machine.bin}:$PATH in_version {version} any", "fabric_manager")
    assert done.stdout.strip() == package, done.stderr


def test_the_version_of_amazons_installer_is_read_from_its_list(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.12xlarge", tmp_path / "image")
    (tmp_path / "image/opt/amazon").mkdir(parents=True)
    installed = record("efa_installed_packages/el8-1.22.0.txt")
    (tmp_path / "image/opt/amazon/efa_installed_packages").write_text(installed)
    code, said = node.run("efa")
    assert code == 1 and "EFA installer 1.22.0 does not suit g5.12xlarge" in said


def test_the_step_waits_for_the_fabric(tmp_path: Path) -> None:
    node = Node(tmp_path, "p5.48xlarge", tmp_path / "image")
    ready, waits = (recorded(f"nvidia-smi/q-fabric-{name}-h100.txt") for name in ("completed", "in-progress"))
    later = f"if [ -e {tmp_path}/asked ]; then {ready}; else touch {tmp_path}/asked; {waits}; fi"
    node.machine.command("nvidia-smi", f'case "$*" in -q) {later} ;; *) echo 535.161.08 ;; esac')
    node.machine.command("nv-fabricmanager", recorded(FM))
    code, said = node.run("fabric_manager")
    assert code == 0 and len(node.asked_for("sleep")) == 1, said


def test_p6_gets_its_subnet_manager_and_the_module_of_its_cards(tmp_path: Path) -> None:
    """Plain Ubuntu keeps mlx5_ib in linux-modules-extra."""
    node = Node(tmp_path, "p6-b300.48xlarge", tmp_path / "image")
    installed = f'case "$*" in *linux-modules-extra*) touch {tmp_path}/mlx5_ib ;; esac'
    lacking = recorded("modprobe/not-found-all.txt", module="mlx5_ib", kernel="6.17.0-1019-aws")
    node.machine.command("uname", "echo 6.17.0-1019-aws")
    node.machine.command("dpkg-query")
    node.machine.command("apt-get", installed)
    node.machine.command("apt-cache")
    node.machine.command("modprobe", f"[ -e {tmp_path}/mlx5_ib ] || {{ {lacking} >&2; exit 1; }}")
    node.machine.command("nvidia-smi", smi("535.161.08", "q-fabric-completed-h100.txt"))
    node.machine.command("nv-fabricmanager", recorded(FM))
    code, said = node.run("fabric_manager")
    assert code == 0, said
    installs = [call.rpartition("--no-install-recommends ")[2] for call in node.asked_for("apt-get")]
    assert installs == ["nvlsm", "linux-modules-extra-6.17.0-1019-aws"]
    assert node.asked_for("modprobe") == ["modprobe --all mlx5_ib ib_umad"] * 2


def test_a_module_that_does_not_load_is_named_where_the_kernel_has_no_package_with_more(tmp_path: Path) -> None:
    """linux-modules-7.0.0-1018-aws has what linux-modules-extra had before; apt has no extra package for it."""
    node = Node(tmp_path, "p6-b300.48xlarge", tmp_path / "image")
    lacking = recorded("modprobe/not-found-all.txt", module="mlx5_ib", kernel="7.0.0-1018-aws")
    node.machine.command("uname", "echo 7.0.0-1018-aws")
    node.machine.command("dpkg-query")
    node.machine.command("apt-get")
    node.machine.command("apt-cache", "exit 100")  # as for a package that it does not know
    node.machine.command("modprobe", f"{lacking} >&2; exit 1")
    node.machine.command("nvidia-smi", smi("535.161.08", "q-fabric-completed-h100.txt"))
    node.machine.command("nv-fabricmanager", recorded(FM))
    code, said = node.run("fabric_manager")
    why = "modprobe: WARNING: Module mlx5_ib not found in directory /lib/modules/7.0.0-1018-aws"
    assert code == 1 and f"mlx5_ib and ib_umad do not load: {why}" in said, said
    assert not [call for call in node.asked_for("apt-get") if "modules-extra" in call]


@pytest.mark.parametrize("broken", ["curl", "apt-get"])
def test_a_node_boots_without_gdrcopy_where_it_cannot_be_installed(tmp_path: Path, broken: str) -> None:
    """Its kernel module need not build for the newest kernel, and NCCL works without."""
    node = Node(tmp_path, "p4d.24xlarge", tmp_path / "image")
    (tmp_path / "image/etc").mkdir(parents=True)
    (tmp_path / "image/etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    node.machine.command("curl", 'while [ "$1" != -o ]; do shift; done; : >"$2"')
    node.machine.command("apt-get", INSTALLED)
    node.machine.command(broken, 'case "$*" in *update*) ;; *) exit 100 ;; esac')
    node.machine.command("dpkg")
    code, said = node.run(
        "gdrcopy", "gdrcopy", header=f"export IMAGE={tmp_path}/image BIN={node.machine.bin} CUDA=13.0"
    )
    assert code == 0 and said.count("warning: GDRCopy cannot be installed: NCCL works without it") == 2, said
    assert node.asked_for("dpkg") == ["dpkg --purge --force-depends gdrdrv-dkms libgdrapi"] * 2


def test_a_type_that_the_cluster_file_does_not_name_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.xlarge", GUEST_FILES)
    (tmp_path / "bundle/machines/g5.xlarge.sh").unlink()
    code, said = node.run("cuda")
    assert code == 1 and "the cluster file has no instance type g5.xlarge" in said


NVIDIA = "https://developer.download.nvidia.com/compute"
KEYRING = f"{NVIDIA}/cuda/repos/ubuntu2404/x86_64/cuda-keyring_1.1-1_all.deb"
PLAIN = {
    "nvidia_driver": ("g5.xlarge", [KEYRING], ["nvidia-open-580"]),
    "nvidia_driver, V100": ("p3dn.24xlarge", [KEYRING], ["cuda-drivers-580"]),
    "fabric_manager": ("p5.48xlarge", [KEYRING], ["nvidia-fabricmanager=580.95.05-1"]),
    "cuda": ("g5.xlarge", [KEYRING], ["cuda-toolkit-13-0"]),
    "cuda, V100": ("p3dn.24xlarge", [KEYRING], ["cuda-toolkit-12-8"]),
    "nccl": ("g5.xlarge", [KEYRING], ["libnccl2=2.28.9-1+cuda13.0", "libnccl-dev=2.28.9-1+cuda13.0"]),
    "dcgm": ("g5.xlarge", [KEYRING], ["datacenter-gpu-manager-4-cuda13"]),
    "dcgm, V100": ("p3dn.24xlarge", [KEYRING], ["datacenter-gpu-manager-4-cuda12"]),
    "gdrcopy": (
        "p4d.24xlarge",
        [
            f"{NVIDIA}/redist/gdrcopy/CUDA%2013.0/ubuntu24_04/x64/{name}_2.5.1-1_amd64.Ubuntu24_04.deb"
            for name in ("gdrdrv-dkms", "libgdrapi")
        ],
        ["gdrdrv-dkms.deb", "libgdrapi.deb"],
    ),
    "efa": ("g5.12xlarge", ["https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz"], []),
}
INSTALLED = """
mkdir -p "$IMAGE"/usr/local/cuda/bin "$IMAGE"/usr/local/lib "$IMAGE"/usr/lib/x86_64-linux-gnu
program() { printf '#!/bin/sh\\n%s\\n' "$2" >"$1"; chmod +x "$1"; }
program "$BIN/nvidia-smi" "case \\"\\$*\\" in *driver_version*) echo 580.95.05 ;; *) $NVIDIA_SMI ;; esac"
program "$BIN/nv-fabricmanager" "$NV_FABRICMANAGER"
program "$BIN/dcgmi" "$DCGMI"
program "$IMAGE/usr/local/cuda/bin/nvcc" "echo Cuda compilation tools, release $CUDA, V$CUDA.1"
touch "$IMAGE"/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9 "$IMAGE"/usr/local/lib/libgdrapi.so.2.5
"""
INSTALLER = """
mkdir -p aws-efa-installer && cat >aws-efa-installer/efa_installer.sh <<'END'
#!/bin/bash
echo "# EFA installer version: 1.47.0" >"$IMAGE/opt/amazon/efa_installed_packages"
echo "Initializing aws-ofi-nccl 1.18.0" >"$IMAGE/opt/amazon/ofi-nccl/lib/libnccl-net.so"
END
chmod +x aws-efa-installer/efa_installer.sh
"""


@pytest.mark.parametrize("case", PLAIN)
def test_a_plain_image_gets_the_matrixs_software_once(tmp_path: Path, case: str) -> None:
    type_, urls, packages = PLAIN[case]
    step = case.partition(",")[0]
    node = Node(tmp_path, type_, tmp_path / "image")
    (tmp_path / "image/etc").mkdir(parents=True)
    (tmp_path / "image/etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    (tmp_path / "image/opt/amazon/ofi-nccl/lib").mkdir(parents=True)
    count, cuda = INSTANCE_TYPES[type_].gpus, "12.8" if "V100" in case else "13.0"
    printed = {"NV_FABRICMANAGER": recorded(FM, version="580.95.05"), "DCGMI": recorded("dcgmi/version.txt"),
               "NVIDIA_SMI": listed(count)}  # fmt: skip
    settings = f"export IMAGE={tmp_path}/image BIN={node.machine.bin} CUDA={cuda} " + " ".join(
        f"{name}={shlex.quote(text)}" for name, text in printed.items()
    )
    node.machine.command("apt-cache", recorded("apt-cache/madison-nvidia-fabricmanager-580.txt"))
    node.machine.command("dpkg-query", "exit 1")
    node.machine.command("dpkg")
    node.machine.command("curl", 'while [ "$1" != -o ]; do shift; done; : >"$2"')
    node.machine.command("tar", f'cd "$4"\n{INSTALLER}')
    node.machine.command("fi_info", recorded("fi_info/efa-libfabric2.6.txt"))
    node.machine.command("apt-get", INSTALLED)
    if step == "fabric_manager":
        node.machine.command("nvidia-smi", smi("580.95.05", "q-fabric-completed-h100.txt"))
    code, said = node.run(step, header=settings)
    assert code == 0, said
    assert [url for call in node.asked_for("curl") for url in call.split() if url.startswith("https:")] == urls
    installed = [call.partition("--no-install-recommends ")[2] for call in node.asked_for("apt-get")]
    assert [all(word in each for word in packages) for each in installed] == ([True] if packages else [])
    before = len(node.machine.calls())
    code, said = node.run(step, header=settings)
    assert code == 0, said
    assert not [call for call in node.machine.calls()[before:] if call.startswith(("apt-get", "curl", "dpkg", "tar"))]


WITH_CONTAINERS = "CONTAINERS=yes; put_program() { :; }"


def test_enroot_and_pyxis_are_installed_if_the_cluster_enables_containers(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.12xlarge", tmp_path / "image")
    commands = {
        "curl": 'while [ "$1" != -o ]; do shift; done; : >"$2"',
        "tar": 'mkdir -p "$4/pyxis-0.20.0"; touch "$4/pyxis-0.20.0/spank_pyxis.so"',
        "make": "",
        "sysctl": "",
        "mountpoint": "exit 1",
        "nvidia-container-cli": "",
        "apt-get": f"printf '#!/bin/sh\\necho 3.5.0\\n' >{node.machine.bin}/enroot; chmod +x {node.machine.bin}/enroot",
    }
    for name, body in commands.items():
        node.machine.command(name, body)
    assert node.run("container_runtime", header="CONTAINERS=no")[0] == 0
    assert not node.asked_for("curl")
    code, said = node.run("container_runtime", header=WITH_CONTAINERS)
    assert code == 0 and "enroot 3.5.0" in said, said
    urls = [url for call in node.asked_for("curl") for url in call.split() if url.startswith("https:")]
    release = "https://github.com/NVIDIA/enroot/releases/download/v3.5.0"
    assert urls == [
        f"{release}/enroot_3.5.0-1_amd64.deb",
        f"{release}/enroot+caps_3.5.0-1_amd64.deb",
        "https://github.com/NVIDIA/pyxis/archive/refs/tags/v0.20.0.tar.gz",
    ]
    image = tmp_path / "image"
    assert (image / "usr/local/lib/slurm/spank_pyxis.so").exists()
    assert "ENROOT_DATA_PATH" in (image / "etc/enroot/enroot.conf").read_text()
    before = len(node.machine.calls())
    assert node.run("container_runtime", header=WITH_CONTAINERS)[0] == 0
    assert not [call for call in node.machine.calls()[before:] if call.startswith(("apt-get", "curl", "tar", "make"))]
    made_by_root(image)


def made_by_root(image: Path) -> None:
    """In enroot's places nobody but root makes names, and so each user owns their folders."""
    settings = image / "etc/enroot/enroot.conf"
    places = [Path(line.split()[1]).parent for line in settings.read_text().splitlines()]
    assert [stat.S_IMODE(place.stat().st_mode) for place in places] == [0o755] * 3
    program = (source_of("container_runtime").parents[2] / "programs/prolog.d/21-enroot").read_text()
    program = program.replace("/etc/enroot/enroot.conf", str(settings))
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_UID": str(os.getuid())}
    subprocess.run(["bash", "-c", program], env=environment, check=True)
    own = [place / f"user-{os.getuid()}" for place in places]
    assert [(stat.S_IMODE(each.stat().st_mode), each.stat().st_uid) for each in own] == [(0o700, os.getuid())] * 3


def test_a_failed_download_names_its_url(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.12xlarge", tmp_path / "image")
    node.machine.command("curl", "exit 28")
    code, said = node.run("efa")
    assert code == 1
    assert "cannot fetch https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz" in said


def test_ranks_get_their_types_variables_and_a_jobs_own_value_wins(tmp_path: Path) -> None:
    node = Node(tmp_path, "g5.12xlarge", tmp_path / "image")
    code, said = node.run("job_environment")
    assert code == 0, said
    path = tmp_path / "image/etc/gpucluster/job-environment.sh"
    done = node.machine.run(f"source {path}; env | grep -E '^(NCCL|FI)_' | sort")
    assert done.stdout.split() == [
        "FI_EFA_USE_HUGE_PAGE=0", "NCCL_SHM_USE_CUDA_MEMCPY=1", "NCCL_SOCKET_IFNAME=^docker,lo,veth",
    ]  # fmt: skip
    done = node.machine.run(f"export FI_EFA_USE_HUGE_PAGE=1; source {path}; echo $FI_EFA_USE_HUGE_PAGE")
    assert done.stdout == "1\n"
