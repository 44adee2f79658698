"""The wheels, installed with their dependencies in an empty environment: a cluster boots from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpucluster.cluster.local_cloud import DEFAULT_WHEELS
from localcloud.testing.ports import two_free_ports

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = [
    "setup.py",
    "pyproject.toml",
    "localcloud/pyproject.toml",
    "package.json",
    "package-lock.json",
    "app.py",
    "gpucluster/shipped.py",
    "gpucluster/cluster/cdk.py",
    "gpucluster/cluster/local_cloud.py",
    "gpucluster/cli/up.py",
]
COVERED_BY = (
    "tests/cloud/test_wheel.py builds and installs the wheel, and runs all verbs that need no cluster; test_shipped.py"
)


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    removed = ("PYTHONPATH", "VIRTUAL_ENV", "GPUCLUSTER_CONFIG")
    environment = {name: value for name, value in os.environ.items() if name not in removed} | variables
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.timeout(1800)
def test_a_cluster_boots_without_the_checkout(tmp_path: Path) -> None:
    wheels, empty, bin_folder = tmp_path / "dist", tmp_path / "empty", tmp_path / "venv" / "bin"
    empty.mkdir()
    (tmp_path / "cache").mkdir()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    (tmp_path / "cache" / "localcloud").symlink_to(cache / "localcloud")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, ".", "./localcloud", folder=ROOT)
    run(sys.executable, "-m", "venv", bin_folder.parent, folder=empty)
    ours = [f"{next(wheels.glob('gpucluster-*.whl'))}[cdk]", next(wheels.glob("gpucluster_localcloud-*.whl"))]
    run(bin_folder / "python", "-m", "pip", "install", "--quiet", *ours, folder=empty)
    # A cache of its own, into which the CDK command line is fetched; the image of nodes is that of this machine.
    variables = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run("gpucluster", "init", folder=empty, **variables)
    (empty / "cluster.yaml").write_text((empty / "cluster.yaml").read_text().replace("GpuCluster", "FromWheel"))
    options = ["--local", "--port", str(two_free_ports()[0]), "--wheels", str(DEFAULT_WHEELS.expanduser())]
    try:
        told = run("gpucluster", "up", *options, folder=empty, **variables)
        assert f"into {tmp_path}/cache/gpucluster/cdk/" in told
        assert "FromWheel" in run("gpucluster", "status", folder=empty, **variables)
        assert json.loads((empty / "cdk.context.json").read_text())
    finally:
        run("gpucluster", "down", "--yes", folder=empty, **variables)
