"""The plugin tests.warm: commands in forks are as commands in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm


@pytest.mark.parametrize(
    "arguments", [("validate",), ("-c", "none.yaml", "validate"), ("nothing",), ("types", "--help")], ids=" ".join
)
def test_a_command_says_what_a_process_of_its_own_says(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text((warm.ROOT / "cluster.yaml").read_text())
    env = os.environ | {"PYTHONPATH": str(warm.ROOT)}
    argv = [sys.executable, "-m", "gpucluster.cli", *arguments]
    alone = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    forked = warm.gpucluster(*arguments, env=env, cwd=tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cluster.yaml")
    with pytest.raises(subprocess.TimeoutExpired):
        warm.gpucluster("-c", str(tmp_path / "cluster.yaml"), "validate", timeout_s=1)
    assert warm.gpucluster("types", "--help").returncode == 0
