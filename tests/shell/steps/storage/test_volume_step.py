"""The data volume is attached at the first boot within a time limit, and at each later boot however long it takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from gpucluster_node.head.volume import NOT_OURS_STATUS
from test_steps import BOOTSTRAP, OWNER, REPORT, Machine, source_of

PLACES = ("/opt/gpucluster", "/etc/systemd")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.programs(*PLACES)
    found.step("volume", found.below(source_of("volume").read_text(), *PLACES))
    found.step("files", found.below(source_of("files").read_text(), *PLACES).replace("root:root", OWNER))
    found.command("sleep")
    found.command("systemctl", '[ "$1" != is-active ]')
    return found


def answers(machine: Machine, *statuses: int) -> None:
    """The exit statuses of `volume attach`, one after another."""
    left = machine.root / "statuses"
    left.write_text("\n".join(map(str, statuses)))
    take = f'mapfile -t all <{left}\nprintf "%s\\n" "${{all[@]:1}}" >{left}'
    machine.command("node-program", f'{take}\necho "no volume yet" >&2\nexit "${{all[0]}}"')
    link = machine.root / "opt/gpucluster/bin/node-program"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(machine.bin / "node-program")


def boot(machine: Machine) -> subprocess.CompletedProcess[str]:
    script = machine.root / "bundle/programs/bin/attach-volume"
    return machine.run(f"sh {script} /dev/volume")


ATTACH = "node-program head.volume attach /dev/volume"
PAUSE = "sleep 15"


@pytest.mark.parametrize(
    ("statuses", "calls", "status"),
    [
        ((0,), [ATTACH], 0),
        ((1, 1, 0), [ATTACH, PAUSE, ATTACH, PAUSE, ATTACH], 0),
        ((1, 3), [ATTACH, PAUSE, ATTACH], 3),
    ],
    ids=["at once", "after errors", "not a volume that another head node has"],
)
def test_at_a_boot_the_volume_is_tried_until_it_is_attached(
    machine: Machine, statuses: tuple[int, ...], calls: list[str], status: int
) -> None:
    answers(machine, *statuses)
    assert boot(machine).returncode == status
    assert machine.calls() == calls


def attach(machine: Machine) -> subprocess.CompletedProcess[str]:
    machine.step("x", f"source {machine.root}/bundle/steps/storage/volume.sh\nstep_x() {{\n    attach /dev/volume\n}}")
    return machine.run(f"{REPORT}\nrun_step x", "runner", "files", "services", "x")


def test_a_deployment_learns_at_once_why_the_volume_is_not_attached(machine: Machine) -> None:
    answers(machine, 1)
    assert "REPORTED step=x line=3: no volume yet" in attach(machine).stdout
    assert machine.calls() == ["systemctl is-active --quiet gpucluster-volume", ATTACH]


def test_the_unit_that_attaches_the_volume_at_a_boot_has_no_time_limit(machine: Machine) -> None:
    """systemd.service(5) of systemd 249 and 255: without TimeoutStartSec a oneshot may take as long as it does."""
    answers(machine, 0)
    attach(machine).check_returncode()
    unit = (machine.root / "etc/systemd/system/gpucluster-volume.service").read_text()
    assert "Type=oneshot\n" in unit and "Timeout" not in unit
    assert f"ExecStart={machine.root}/opt/gpucluster/bin/attach-volume /dev/volume\n" in unit


def test_a_volume_that_was_detached_from_a_running_head_is_not_attached_under_its_mount(machine: Machine) -> None:
    answers(machine, 0)
    machine.command("systemctl")
    attach(machine).check_returncode()
    assert ATTACH not in machine.calls()


def test_the_status_that_ends_the_tries_is_that_of_the_program() -> None:
    script = (BOOTSTRAP / "programs/bin/attach-volume").read_text()
    assert f"-eq {NOT_OURS_STATUS} ]; then exit {NOT_OURS_STATUS}" in script
