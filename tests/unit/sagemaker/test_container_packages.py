"""pip itself installs a job's packages, without an index."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucluster_job.sagemaker import packages
from gpucluster_job.settings import GaveUp


class Running:
    """The command of a phase, without the signals of a real Runner."""

    def phase(self, argv: list[str], take: Callable[[bytes], None], environment: dict[str, str]) -> int:
        import subprocess

        done = subprocess.run([sys.executable, *argv[1:]], capture_output=True, env=environment, check=False)
        take(done.stdout + done.stderr)
        take(b"")
        return done.returncode


def install(file: Path) -> None:
    running: Any = Running()
    packages.install(running, file)


def test_nothing_to_install(tmp_path: Path) -> None:
    install(tmp_path / "requirements.txt")


def test_what_is_there_already(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requirements.txt").write_text("--no-index\npytest\n", encoding="utf-8")
    install(tmp_path / "requirements.txt")
    assert "[sagemaker] pip installs the job's packages on this host" in capfd.readouterr().out


def test_a_package_that_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("--no-index\nno-such-package-of-ours\n", encoding="utf-8")
    with pytest.raises(GaveUp, match=r"exit code 1: ERROR: Could not find a version .*no-such-package-of-ours"):
        install(tmp_path / "requirements.txt")
