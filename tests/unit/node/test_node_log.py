"""Lines of the node programs' log: nothing that a user names makes a line of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parents[3] / "bootstrap"
FORGED = "x\\n2026-11-28T00:00:00+0000 reconcile INFO all is well\\x1b]52;c;eA==\\x07\\udcff"
PROGRAM = f"""
import logging
from gpucluster_node.log import start_logging
start_logging()
name = "{FORGED}"
logging.getLogger("scratch").warning("job 1: %s could not be removed and stays", name)
try:
    raise OSError(name)
except OSError:
    logging.getLogger("scratch").exception("an error of %s", name)
"""


def test_a_users_name_makes_no_line_and_no_code_of_a_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=BOOTSTRAP, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line.split()[1:3] for line in lines if line[0] != " "] == [["scratch", "WARNING"], ["scratch", "ERROR"]]
    assert "Logging error" not in done.stderr
    assert r"job 1: x\n2026-11-28T00:00:00+0000" in lines[0]
