"""The real uv makes a Python 3.11 on a machine that has none; its archive comes from this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_steps import Machine

from tests import python_mirror

UV = shutil.which("uv", path=str(Path(sys.executable).parent))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    made = f'for last; do :; done; mkdir -p "$last/bin"; ln -s /bin/true "$last/bin/python"; ln -s {UV} "$last/bin/uv"'
    machine.command("virtualenv", made)
    return machine


def install(machine: Machine, downloads: Path) -> subprocess.CompletedProcess[str]:
    settings = f"export HOME=$ROOT UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS_JSON_URL={downloads}"
    return machine.run(
        f'{settings}\nenvironment=$(python_3_11 "$ROOT/made")\necho "$environment"', "runner", "interpreter"
    )


def test_uv_makes_one_python_3_11(machine: Machine, tmp_path: Path) -> None:
    done = install(machine, python_mirror.make(tmp_path / "mirror"))
    assert done.returncode == 0, done.stderr
    # One installation has two names, with the patch version and without it: cpython-3.11* fits both.
    assert len(list((tmp_path / "made/interpreter").glob("cpython-3.11*"))) == 2
    (line,) = done.stdout.splitlines()
    asked = "import sys, ssl; print(sys.version_info[:2], sys.prefix)"
    said = subprocess.run([line, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"(3, 11) {tmp_path}/made/interpreter/cpython-3.11")


def test_the_tests_run_the_uv_that_nodes_install(machine: Machine) -> None:
    wanted = Requirement(machine.run('echo "$UV"', "interpreter").stdout.strip())
    assert version(wanted.name) in wanted.specifier


def test_an_interpreter_that_cannot_be_downloaded_ends_the_step(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "downloads.json").write_text("{}")
    done = install(machine, tmp_path / "downloads.json")
    assert done.returncode != 0 and not done.stdout
    assert "No download found for request" in done.stderr
