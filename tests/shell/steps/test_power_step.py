"""The daemon that launches nodes takes the place of an older version's programs, and goes on with their launches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from test_steps import source_of


def run(root: Path) -> list[str]:
    """Returns the commands that the step calls."""
    text = source_of("power").read_text()
    for place in ("/etc/", "/run/"):
        text = text.replace(f" {place}", f" {root}{place}")
    stubs = "".join(
        f'{name}() {{ echo "{name} $*"; }}\n' for name in ("node_program", "node_service", "service_down", "pkill")
    )
    stubs += 'put_file() { mkdir -p "${1%/*}"; cat >"$1"; }\n'
    script = f"set -euo pipefail\n{text}\n{stubs}\nstep_power\n"
    return subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout.splitlines()


def test_systemd_ends_a_daemon_that_hangs(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert said == [
        "node_program ",
        "node_service power power.daemon Launch and terminate the instances of Slurm's nodes",
    ]
    drop_in = tmp_path / "etc/systemd/system/gpucluster-power.service.d/gpucluster-watchdog.conf"
    assert "WatchdogSec=60" in drop_in.read_text().splitlines()


def test_an_older_versions_programs_are_ended_and_their_records_stay(tmp_path: Path) -> None:
    unit = tmp_path / "etc/systemd/system/gpucluster-reconcile.service"
    old = [tmp_path / "run/gpucluster" / name for name in ("offers", "limits", "shortage", "launching/locks")]
    rule, record = tmp_path / "etc/sudoers.d/gpucluster", tmp_path / "run/gpucluster/launching/4711-1.json"
    for folder in (unit.parent, rule.parent, *old):
        folder.mkdir(parents=True)
    for path in (unit, rule, record):
        path.touch()
    said = run(tmp_path)
    assert "service_down gpucluster-reconcile" in said
    assert any(line.startswith("pkill --full gpucluster_node") for line in said)
    assert said.index("service_down gpucluster-reconcile") < next(
        n for n, line in enumerate(said) if "node_service" in line
    )
    assert [path for path in (unit, rule, *old) if path.exists()] == [] and record.exists()
    assert "pkill" not in "".join(run(tmp_path)), "once"
