"""Our own programs in a job run as on any other job, whatever its `env` sets for Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucluster_job import library


def test_settings_for_python_are_the_programs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "secrets.sh").write_text("export AWS_SECRET_ACCESS_KEY=k PYTHONOPTIMIZE=2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(tmp_path))
    for name in ("PYTHONWARNINGS", "PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT"):
        monkeypatch.setenv(name, "error")
    found: dict[str, str] = {}
    monkeypatch.setattr(os, "execve", lambda program, argv, environment: found.update(environment))
    library.main(["library", "channels"])
    assert {name for name in found if name.startswith("PYTHON")} == {"PYTHONDONTWRITEBYTECODE"}
    assert found["AWS_SECRET_ACCESS_KEY"] == "k"
