"""The Python API in a notebook: cells that submit a job and await it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bed import ROOT, Bed

SUBJECTS = ["gpucluster/client/*", "gpucluster/__init__.py", "docs/api.md"]
COVERED_BY = "test_client.py; the same calls from a program, booted, in test_api.py"
CELLS = [
    "from gpucluster import Cluster, Job\ncluster = Cluster.connect()",
    "run = cluster.submit(Job(command=['echo', 'from a notebook'], launcher='srun', ntasks_per_node=1, workdir=None))\n"
    "result = await run.wait_async()",
    "print(result.check().state, 'from a notebook' in run.log())\ncluster.close()",
]
EXECUTE = """
import json, sys, nbformat, nbclient
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in json.load(sys.stdin)])
nbclient.NotebookClient(book, timeout=300).execute()
print(book.cells[-1].outputs[0].text, end="")
"""
NOTEBOOK = ["nbclient==0.10.2", "ipykernel==6.29.5"]


def test_a_notebook_submits_jobs_and_waits_for_them(cluster: Bed, tmp_path: Path) -> None:
    target = tmp_path / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*pip, *NOTEBOOK], check=True, timeout=300)
    environment = os.environ | cluster.environment() | {"PYTHONPATH": f"{ROOT}:{target}", "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE], input=json.dumps(CELLS), env=environment, cwd=tmp_path, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "COMPLETED True\n"), done.stderr
