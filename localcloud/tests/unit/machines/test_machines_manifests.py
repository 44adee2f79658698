"""The manifests of the AMIs (localcloud/machines/ami), compared with the local images' packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localcloud.machines import ami, image

# Debian's packages whose name differs from their command's.
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
def test_no_package_of_all_images_is_missing_on_the_ami(manifest: Path) -> None:
    names = image.packages(image.PACKAGE_LIST.read_text())
    assert not {COMMANDS_OF.get(name, name) for name in names} & ami.lacking(manifest)


def test_the_default_image_has_what_a_baked_ami_has() -> None:
    baked = {COMMANDS_OF.get(name, name) for name in image.packages(image.SOFTWARE_LIST.read_text())}
    assert ami.baked(ami.DLAMI) <= baked


def test_differences_are_found(tmp_path: Path) -> None:
    for path, text in {"usr/bin/aws": "", "usr/bin/nvidia-smi": "1.0", "usr/bin/python3": ""}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = ami.differences(tmp_path, ami.DLAMI, baked=True)
    assert "aws is there, and the AMI has none" in found
    assert "/usr/bin/nvidia-smi does not contain 595.91.07" in found
    assert "/usr/bin/dcgmi is missing" in found
    assert "slurmd is missing, which `image build` installs" in found
    assert "slurmd is there, and the AMI has none" not in ami.differences(tmp_path, ami.DLAMI, baked=False)
