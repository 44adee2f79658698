"""What the AMIs have and lack (localcloud/machines/ami), and what the local images are made of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from localcloud.machines import ami, image

ROOT = Path(__file__).resolve().parents[2]
# Debian's packages whose names are not those of a command that they bring.
COMMANDS_OF = {
    "awscli": "aws",
    "build-essential": "gcc",
    "mariadb-server": "mariadbd",
    "munge": "munged",
    "nftables": "nft",
    "openmpi-bin": "mpirun",
    "slurm-client": "scontrol",
}


@pytest.mark.parametrize("manifest", ami.MANIFESTS)
def test_each_line_has_its_source_and_date(manifest: Path) -> None:
    has, lacks = ami.read(manifest)
    assert has and lacks
    for each in (*has, *lacks):
        assert len(each["source"]) > 20, each
        assert re.match(r"20\d\d", each["date"]), each
        assert not {*each} - {"what", "path", "version", "here", "commands", "baked", "proved", "source", "date"}, each


@pytest.mark.parametrize("manifest", ami.MANIFESTS)
def test_no_package_of_every_image_is_one_that_the_ami_lacks(manifest: Path) -> None:
    names = image.packages(image.PACKAGE_LIST.read_text())
    assert not {COMMANDS_OF.get(name, name) for name in names} & ami.lacking(manifest)


def test_what_the_default_image_has_beyond_the_ami_is_what_image_build_bakes(tmp_path: Path) -> None:
    """The step is asked on a machine that has nothing; what it installs is the layer of the default image."""
    baked = {COMMANDS_OF.get(name, name) for name in image.packages(image.SOFTWARE_LIST.read_text())}
    assert ami.baked(ami.DLAMI) <= baked
    script = f"""
        source {ROOT}/bootstrap/steps/packages.sh
        command() {{ false; }}; python3() {{ false; }}; ldconfig() {{ :; }}
        without_services() {{ shift; printf '%s\\n' "$@"; }}
        ROLE=image ACCOUNTING=local; step_packages
    """
    asked = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    played = {"nfs-common", "nfs-kernel-server"}  # stand-ins: this machine's kernel has no NFS
    assert set(asked) - played <= set(image.packages(image.SOFTWARE_LIST.read_text()))


def test_differences_are_found(tmp_path: Path) -> None:
    for path, text in {"usr/bin/aws": "", "usr/bin/nvidia-smi": "1.0", "usr/bin/python3": ""}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = ami.differences(tmp_path, ami.DLAMI, baked=True)
    assert "aws is there, and the AMI has none" in found
    assert "/usr/bin/nvidia-smi does not say 595.91.07" in found
    assert "/usr/bin/dcgmi is missing" in found
    assert "slurmd is missing, which `image build` installs" in found
    assert "slurmd is there, and the AMI has none" not in ami.differences(tmp_path, ami.DLAMI, baked=False)
