"""The parts of the image's fingerprint, and the stand-ins for hardware commands, run as scripts."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.machines import image

GUEST = image.GUEST_FILES
TARGETS = """\
http://mirror.example/debian-security/
http://mirror.example/debian/
"""
DUMP = """\
APT::Architecture "amd64";
Acquire::Check-Valid-Until "false";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::Verify-Peer "";
Acquire::Languages "none";
"""


def test_mirror_is_the_hosts_main_archive() -> None:
    assert image.debian_mirror(TARGETS) == "http://mirror.example/debian"


def test_mirror_can_be_set_and_is_required_if_apt_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(image.ImageError, match="LOCALCLOUD_DEBIAN_MIRROR"):
        image.debian_mirror("http://mirror.example/ubuntu/")
    monkeypatch.setenv("LOCALCLOUD_DEBIAN_MIRROR", "http://other.example/debian/")
    assert image.debian_mirror(TARGETS) == "http://other.example/debian"


def test_apt_options_for_the_mirror_are_copied() -> None:
    assert image.apt_options(DUMP) == (
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http::Proxy "http://proxy.example:3128";',
    )


def test_fingerprint_changes_with_every_part_of_the_image(tmp_path: Path) -> None:
    certificate = tmp_path / "own.crt"
    certificate.write_text("one")
    plain = image.Host(mirror="http://mirror.example/debian")
    trusting = dataclasses.replace(plain, certificates=(certificate,))
    before = image.fingerprint(trusting)
    certificate.write_text("two")
    others = [
        plain,
        trusting,
        dataclasses.replace(plain, mirror="http://m"),
        dataclasses.replace(plain, pip_index="http://i"),
    ]
    prints = [before, *map(image.fingerprint, others)]
    assert len(set(prints)) == len(prints)
    assert image.fingerprint(plain) == image.fingerprint(dataclasses.replace(plain))
    assert all(len(one) == 16 for one in prints)


def test_package_list_has_words_only() -> None:
    words = image.packages("# none\na b  # note\n\nc\n")
    assert words == ["a", "b", "c"]
    assert {"cloud-init", "python3"} <= set(image.packages(image.PACKAGE_LIST.read_text()))
    assert {"slurmd", "openmpi-bin"} <= set(image.packages(image.SOFTWARE_LIST.read_text()))


def test_a_plain_image_differs_and_has_the_software_as_packages() -> None:
    host = image.Host(mirror="http://m")
    assert image.fingerprint(host) != image.fingerprint(host, plain=True)
    ordinary, plain = (image.mmdebstrap_argv(Path("/t"), host, Path("/f"), plain=plain) for plain in (False, True))
    included = [next(word for word in argv if word.startswith("--include=")) for argv in (ordinary, plain)]
    assert ["slurmd" in each for each in included] == [True, False]
    hooks = [word for word in plain if "plain.sh" in word]
    assert len(hooks) == 1 and "slurmd" in hooks[0]
    assert not [word for word in ordinary if "plain.sh" in word]


def test_python_3_11_is_what_uv_finds_and_not_installed() -> None:
    argv = image.mmdebstrap_argv(Path("/target"), image.Host(mirror="http://m/debian"), Path("/files"))
    assert "python3.11" not in next(word for word in argv if word.startswith("--include="))
    (hook,) = (word for word in argv if "python_archive.sh" in word)
    assert "bookworm python3.11-minimal" in hook
    assert argv[-3:] == [f"deb http://m/debian {suite} main" for suite in ("trixie", "trixie-updates", "bookworm")]
    assert "Pin-Priority: 50\n" in image.PINS


def test_sources_name_the_keyring_where_the_host_is_not_debian() -> None:
    assert image.sources(image.Host(mirror="http://m"))[0] == "deb http://m trixie main"
    foreign = image.sources(image.Host(mirror="http://m", debian=False))
    assert foreign[0] == f"deb [signed-by={image.KEYRING}] http://m trixie main"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    facts = {"vcpus": 48, "gpus": 2, "gpu_name": "NVIDIA A10G", "gpu_memory_mib": 23028, "efa_interfaces": 1}
    (tmp_path / "hardware.json").write_text(json.dumps(facts | {"instance_type": "g5.12xlarge"}))
    return tmp_path


def stand_in(path: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    argv = [sys.executable, "-I", str(GUEST / path), *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_nvidia_smi_lists_the_gpus(run_dir: Path) -> None:
    code, out, _ = stand_in("usr/bin/nvidia-smi", "-L", LOCALCLOUD_RUN=str(run_dir))
    assert code == 0
    assert [line.split(" (")[0] for line in out.splitlines()] == ["GPU 0: NVIDIA A10G", "GPU 1: NVIDIA A10G"]


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("csv", ["index, name, memory.total [MiB]", "0, NVIDIA A10G, 23028 MiB", "1, NVIDIA A10G, 23028 MiB"]),
        ("csv,noheader,nounits", ["0, NVIDIA A10G, 23028", "1, NVIDIA A10G, 23028"]),
    ],
)
def test_nvidia_smi_answers_queries(run_dir: Path, form: str, lines: list[str]) -> None:
    arguments = ("--query-gpu=index,name,memory.total", f"--format={form}")
    assert stand_in("usr/bin/nvidia-smi", *arguments, LOCALCLOUD_RUN=str(run_dir)) == (0, "\n".join(lines) + "\n", "")


def test_nvidia_smi_refuses_what_it_does_not_know(run_dir: Path) -> None:
    said = stand_in("usr/bin/nvidia-smi", "--query-gpu=colour", "--format=csv", LOCALCLOUD_RUN=str(run_dir))
    assert said == (2, 'Field "colour" is not a valid field to query.\n\n', "")
    code, out, _ = stand_in("usr/bin/nvidia-smi", "nvlink", "--status", LOCALCLOUD_RUN=str(run_dir))
    assert (code, out) == (97, "")


def test_nvidia_smi_table_names_each_gpu(run_dir: Path) -> None:
    _, out, _ = stand_in("usr/bin/nvidia-smi", LOCALCLOUD_RUN=str(run_dir))
    rows = [line for line in out.splitlines() if "NVIDIA A10G" in line]
    assert rows == [
        f"|   {number}  NVIDIA A10G                    On  |   00000000:00:1{bus}.0 Off |                    0 |"
        for number, bus in ((0, "B"), (1, "C"))
    ]
    assert {len(line) for line in out.splitlines()[1:]} == {91}


def test_machine_without_gpus_has_none(run_dir: Path) -> None:
    facts = {"gpus": 0, "gpu_name": None, "gpu_memory_mib": 0, "efa_interfaces": 0, "instance_type": "m5.large"}
    (run_dir / "hardware.json").write_text(json.dumps(facts))
    assert stand_in("usr/bin/nvidia-smi", "-L", LOCALCLOUD_RUN=str(run_dir))[:2] == (6, "No devices were found\n")
    nothing = (61, "", "fi_getinfo: -61 (No data available)\n")
    assert stand_in("usr/bin/fi_info", "-p", "efa", LOCALCLOUD_RUN=str(run_dir)) == nothing


def test_fi_info_lists_each_interface_in_every_fabric_and_all_interfaces_of_a_fabric_together(run_dir: Path) -> None:
    facts = {"efa_interfaces": 4, "instance_type": "p4d.24xlarge"}
    (run_dir / "hardware.json").write_text(json.dumps(facts))
    names = ["rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27"]
    kinds = [("efa-direct", "rdm", "FI_EP_RDM"), ("efa", "rdm", "FI_EP_RDM"), ("efa", "dgrm", "FI_EP_DGRAM")]
    blocks = [
        f"provider: efa\n    fabric: {fabric}\n    domain: {name}-{kind}\n    version: 206.0\n"
        f"    type: {type_}\n    protocol: FI_PROTO_EFA\n"
        for fabric, kind, type_ in kinds
        for name in names
    ]
    own = {"LOCALCLOUD_RUN": str(run_dir)}
    assert stand_in("usr/bin/fi_info", "-p", "efa", **own) == (0, "".join(blocks), "")
    assert stand_in("usr/bin/fi_info", "-p", "efa", "-t", "FI_EP_RDM", **own) == (0, "".join(blocks[:8]), "")
    assert stand_in("usr/bin/fi_info", "-p", "tcp", **own)[0] == 61


def test_fi_info_says_its_version(run_dir: Path) -> None:
    code, out, _ = stand_in("usr/bin/fi_info", "--version", LOCALCLOUD_RUN=str(run_dir))
    assert code == 0 and out.splitlines()[1:] == ["libfabric: 2.6.0amzn1.0", "libfabric api: 2.6"]


@pytest.fixture
def nfs_root(tmp_path: Path) -> Path:
    (tmp_path / "etc/exports.d").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "etc/exports.d/one.exports").write_text("# mine\n/home 10.0.0.0/16(rw,sync) 10.1.0.0/16\n")
    return tmp_path


def etab(root: Path) -> list[str]:
    return (root / "var/lib/nfs/etab").read_text().splitlines()


def test_exportfs_records_what_is_configured_and_forgets_it(nfs_root: Path) -> None:
    assert stand_in("usr/sbin/exportfs", "-ra", LOCALCLOUD_ROOT=str(nfs_root))[0] == 0
    assert etab(nfs_root)[0] == "/home\t10.0.0.0/16(rw,sync)"
    assert etab(nfs_root)[1].startswith("/home\t10.1.0.0/16(sync,")
    assert stand_in("usr/sbin/exportfs", LOCALCLOUD_ROOT=str(nfs_root))[1] == "/home\t10.0.0.0/16\n/home\t10.1.0.0/16\n"
    stand_in("usr/sbin/exportfs", "-u", "10.0.0.0/16:/home", LOCALCLOUD_ROOT=str(nfs_root))
    assert len(etab(nfs_root)) == 1
    stand_in("usr/sbin/exportfs", "-ua", LOCALCLOUD_ROOT=str(nfs_root))
    assert etab(nfs_root) == []


def test_exportfs_names_a_directory_that_is_not_there(nfs_root: Path) -> None:
    code, _, err = stand_in("usr/sbin/exportfs", "-o", "rw", "*:/absent", LOCALCLOUD_ROOT=str(nfs_root))
    assert (code, err) == (1, "exportfs: Failed to stat /absent: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("server:/x", "/absent-mount-point"), 32, "does not exist"),
        (("no-colon", "/tmp"), 1, "localcloud: mount.nfs takes HOST:/PATH"),
        (("127.0.0.1:/x", "/tmp", "-o", "rw,retry=0"), 32, "the host does not answer"),
    ],
)
def test_mount_nfs_fails_with_its_reason(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    status, _, err = stand_in("usr/sbin/mount.nfs", *arguments, LOCALCLOUD_RUN=str(tmp_path))
    assert status == code and words in err
