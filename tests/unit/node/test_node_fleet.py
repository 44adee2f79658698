"""What a program of a bundle reads of the cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "bootstrap" / "gpucluster_node"


def test_a_running_program_finds_the_bundle_that_replaced_its_own(tmp_path: Path) -> None:
    """`gpucluster up` replaces the link /opt/gpucluster/bundle on the head node."""
    link = tmp_path / "bundle"
    for name in ("bundle-1", "bundle-2"):
        (tmp_path / name / "gpucluster_node").mkdir(parents=True)
        (tmp_path / name / "fleet.json").write_text(name)
        for file in ("__init__.py", "fleet.py"):
            shutil.copy(SOURCE / file, tmp_path / name / "gpucluster_node")
    link.symlink_to(tmp_path / "bundle-1")
    program = (
        "import os; from pathlib import Path; from gpucluster_node import fleet; "
        f"link = Path('{link}'); link.unlink(); link.symlink_to(link.with_name('bundle-2')); "
        "print((fleet.BUNDLE / 'fleet.json').read_text(), (fleet.NEWEST / 'fleet.json').read_text())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(link)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "bundle-1 bundle-2\n", done.stderr
