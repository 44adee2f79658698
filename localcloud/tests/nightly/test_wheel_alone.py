"""The local cloud from its wheel, in an empty virtual environment: what it depends on is what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from localcloud.tests import wheel
from localcloud.tests.wheel import Installed

SUBJECTS = ["localcloud/pyproject.toml", "localcloud/__main__.py", "localcloud/process/*", "localcloud/tests/wheel.py"]
COVERED_BY = "test_local_cloud_wheel.py: every file is in the wheel, and a cloud runs from it"


def test_a_cloud_runs_in_an_empty_environment(tmp_path: Path) -> None:
    built = wheel.build(tmp_path / "wheels")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    python = tmp_path / "venv/bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(built)]
    subprocess.run(pip, check=True, timeout=900)
    installed = Installed(python, tmp_path)
    assert installed.package().is_relative_to(tmp_path / "venv")
    installed.lives_and_ends()
    assert (
        "usage: localcloud"
        in subprocess.run(
            [str(tmp_path / "venv/bin/localcloud"), "--help"], capture_output=True, text=True, check=True
        ).stdout
    )
