"""The head's files for Slurm's burst buffer, which exist only with a Lustre file system."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from test_steps import source_of

from gpucluster import render
from gpucluster.config import loads

ROOT = Path(__file__).resolve().parents[4]
CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
LUSTRE = CLUSTER + "storage: [{mount: /fsx, type: fsx-lustre}]\n"


def run(root: Path) -> None:
    """`put_staging` below a scratch folder, with a user slurm that is this one."""
    text = "".join(source_of(name).read_text() for name in ("files", "controller", "staging"))
    for path in ("/etc", "/var/log"):
        text = text.replace(path, f"{root}{path}")
    script = (
        f'set -euo pipefail\n{text}\nput_mode() {{ chmod "$2" "$1"; }}\ninstall() {{ command install -m 0644 '
        f'"${{@: -2}}"; }}\nBUNDLE={root}/bundle\nput_staging\n'
    )
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, env=environment)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/log/gpucluster").mkdir(parents=True)
    return tmp_path


def bundle(root: Path, text: str) -> None:
    for path in (root / "bundle/slurm").glob("*"):
        path.unlink()
    for name, content in render.bundle(loads(text)).items():
        if name.startswith("slurm/"):
            (root / "bundle" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "bundle" / name).write_text(content)


def kept(root: Path) -> set[str]:
    return {path.relative_to(root / "etc").as_posix() for path in (root / "etc").rglob("*") if path.is_file()}


def test_files_exist_only_with_the_file_system(root: Path) -> None:
    bundle(root, LUSTRE)
    run(root)
    drop_in = "systemd/system/slurmctld.service.d/gpucluster-staging.conf"
    ours = {"slurm/burst_buffer.conf", "slurm/burst_buffer.lua", "sudoers.d/gpucluster-staging", drop_in}
    assert kept(root) == ours
    before = {path: path.stat().st_mtime_ns for path in (root / "etc").rglob("*")}
    run(root)
    assert {path: path.stat().st_mtime_ns for path in (root / "etc").rglob("*")} == before
    bundle(root, CLUSTER)
    run(root)
    assert kept(root) == set()


def test_slurm_names_the_plugin_where_there_is_lustre() -> None:
    line = "BurstBufferType=burst_buffer/lua"
    assert line in render.bundle(loads(LUSTRE))["slurm/slurm.conf"].splitlines()
    assert line not in render.bundle(loads(CLUSTER))["slurm/slurm.conf"].splitlines()


def test_slurm_may_run_these_as_root_and_nothing_else(root: Path) -> None:
    bundle(root, LUSTRE)
    run(root)
    (rule,) = (root / "etc/sudoers.d/gpucluster-staging").read_text().splitlines()
    commands = rule.removeprefix("slurm ALL=(root) NOPASSWD: ").split(", ")
    program = "/opt/gpucluster/bin/node-program lustre.staging"
    assert commands == [f"{program} {verb} *" for verb in ("data-in", "data-out", "teardown")]
    assert f'"sudo -n {program}"' in (root / "etc/slurm/burst_buffer.lua").read_text()
