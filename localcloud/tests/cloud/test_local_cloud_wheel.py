"""The wheel has every file of the package, and a cloud runs from it alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from localcloud.tests import wheel
from localcloud.tests.wheel import DISTRIBUTION, Installed

APART = ("tests/", "README.md", "pyproject.toml")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Uses the packages of these tests, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site"), str(built)]
    subprocess.run(pip, check=True, capture_output=True, timeout=300)
    return Installed(Path(sys.executable), folder, PYTHONPATH=str(folder / "site"))


def files() -> list[str]:
    """The package's files in git, so that untracked files do not count."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, cwd=DISTRIBUTION, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and not name.startswith(APART) and (DISTRIBUTION / name).is_file()]


def test_every_file_is_in_the_wheel(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        packed = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    missing = [name for name in files() if f"localcloud/{name}" not in packed]
    assert not missing
    beyond = {name for name in packed if not name.startswith("gpucluster_localcloud-")}
    assert beyond == {f"localcloud/{name}" for name in files()}
    programs = [name for name in files() if (DISTRIBUTION / name).stat().st_mode & 0o100]
    assert programs
    assert all(packed[f"localcloud/{name}"] & 0o100 for name in programs)


def test_a_cloud_runs_from_the_wheel(installed: Installed) -> None:
    assert installed.package() == installed.folder / "site/localcloud"
    installed.lives_and_ends()


def test_the_image_of_the_wheel_is_that_of_the_checkout(installed: Installed) -> None:
    """The fingerprint covers every file of the guests, and whether it is executable."""
    program = "from localcloud.machines import image; print(image.fingerprint(image.Host('http://mirror'), plain=True))"
    here = subprocess.run([sys.executable, "-c", program], cwd=DISTRIBUTION.parent, capture_output=True, text=True)
    assert installed.run("-c", program) == here.stdout != ""
