"""What a program of a bundle reads of the cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpucluster_node import fleet

from gpucluster.config import loads
from gpucluster.layout import expand
from gpucluster.render import files

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


@pytest.mark.parametrize(
    ("at_limit", "monthly_usd", "stops_nodes"),
    [("notify", None, False), ("stop-launches", 5000.0, False), ("stop-nodes", 5000.0, True)],
)
def test_what_happens_at_the_budgets_limit(at_limit: str, monthly_usd: float | None, stops_nodes: bool) -> None:
    partition = "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]"
    budget = f"budget: {{monthly_usd: 5000, email: a@example.com, at_limit: {at_limit}}}"
    found = fleet.parse(files.fleet(expand(loads(f"name: Test\nregion: us-east-1\n{partition}\n{budget}\n"))))
    assert (found.monthly_usd, found.stops_nodes) == (monthly_usd, stops_nodes)
