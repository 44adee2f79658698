"""A new bundle on a running head node: Slurm's programs use the new bundle's modules before any slow step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from test_steps import source_of

ROOT = Path(__file__).resolve().parents[3]


def run(root: Path) -> str:
    """Returns what the step says."""
    text = "".join(source_of(name).read_text() for name in ("node_program", "controller", "staging", "programs"))
    text = re.sub(r"(?<![\w$/])/(etc|opt|run|var)/", rf"{root}/\1/", text)
    stubs = 'say() { echo "$*"; }\n'
    stubs += 'put_file() { mkdir -p "${1%/*}"; cat >"$1"; }\ntouch_log() { :; }\n'
    stubs += 'put_directory() { mkdir -p "$1"; echo "$2 $3" >"$1/of"; }\n'
    stubs += f'put_program() {{ put_file "{root}/opt/gpucluster/$1" <"{ROOT}/bootstrap/programs/$1"; }}\n'
    script = f"set -euo pipefail\nBUNDLE={root}/bundle\n{text}\n{stubs}\nstep_programs\n"
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # a Python that has boto3
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def written(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_programs_of_an_older_bundle_are_replaced(tmp_path: Path) -> None:
    resume = tmp_path / "opt/gpucluster/bin/resume"
    resume.parent.mkdir(parents=True)
    resume.write_text('exec sudo -n node-program resume "$@"\n')
    run(tmp_path)
    assert "/opt/gpucluster/bin/power-request resume" in resume.read_text()
    assert (tmp_path / "opt/gpucluster/bin/power-request").exists()
    assert "etc/slurm/burst_buffer.lua" not in written(tmp_path)


def test_slurms_user_may_write_into_one_folder_also_right_after_a_boot_and_has_no_other_right(tmp_path: Path) -> None:
    (tmp_path / "opt/gpucluster/bin").mkdir(parents=True)
    (tmp_path / "opt/gpucluster/bin/resume").touch()
    run(tmp_path)
    assert (tmp_path / "run/gpucluster/requests/of").read_text() == "0730 root:slurm\n"
    made = (tmp_path / "etc/tmpfiles.d/gpucluster-power.conf").read_text()
    assert made.replace(str(tmp_path), "") == "d /run/gpucluster/requests 0730 root slurm\n"
    assert not (tmp_path / "etc/sudoers.d/gpucluster").exists()


def test_data_staging_programs_are_replaced_too(tmp_path: Path) -> None:
    for name in ("opt/gpucluster/bin/resume", "bundle/slurm/burst_buffer.lua", "bundle/slurm/burst_buffer.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("new\n")
    run(tmp_path)
    assert (tmp_path / "etc/slurm/burst_buffer.lua").read_text() == "new\n"
    assert "lustre.staging data-in *" in (tmp_path / "etc/sudoers.d/gpucluster-staging").read_text()


def test_nothing_is_replaced_at_the_first_boot(tmp_path: Path) -> None:
    run(tmp_path)
    assert written(tmp_path) == set()


def test_programs_are_replaced_before_any_other_step() -> None:
    steps = re.findall(r"^(?:run|try)_step (\w+)", (ROOT / "bootstrap/head.sh.j2").read_text(), re.MULTILINE)
    assert steps[0] == "programs"
