"""The end of an instance whose parts cannot all be removed from this machine."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from localcloud.machines.hypervisor import NspawnHypervisor
from localcloud.machines.machine import Machine as RealMachine
from localcloud.machines.spec import BootFault


class Machine(SimpleNamespace):
    def __init__(self, *, keeps_disk: bool) -> None:
        removed = SimpleNamespace(discard=lambda: None)
        super().__init__(state="stopping", keeps_disk=keeps_disk, gone=threading.Event(), root=removed, console="")
        self.spec = SimpleNamespace(instance_id="i-1")

    def say(self, text: str) -> None:
        self.console += text


def busy(*_: Any) -> None:
    raise OSError("umount: target is busy")


@pytest.fixture
def hypervisor(monkeypatch: pytest.MonkeyPatch) -> NspawnHypervisor:
    made = NspawnHypervisor.__new__(NspawnHypervisor)
    made._ends, made._left, made._machines = threading.Lock(), False, {}
    monkeypatch.setattr(made, "_volumes", SimpleNamespace(detach_all=lambda _: None), raising=False)
    monkeypatch.setattr(made, "_clear", busy)
    return made


@pytest.mark.parametrize(("keeps_disk", "state"), [(True, "stopped"), (False, "terminated")])
def test_an_instance_ends_and_its_console_says_what_is_left(
    hypervisor: NspawnHypervisor, keeps_disk: bool, state: str
) -> None:
    machine: Any = Machine(keeps_disk=keeps_disk)
    hypervisor._power_off(machine, None)
    assert (machine.state, machine.gone.is_set()) == (state, True)
    assert "not all of this instance was removed: umount: target is busy" in machine.console
    assert hypervisor._left, "its owner's id must stay on record"


def test_a_disk_that_cannot_be_deleted_is_left_and_the_instance_ends(
    hypervisor: NspawnHypervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hypervisor, "_clear", lambda *_: None)
    machine: Any = Machine(keeps_disk=False)
    machine.root = SimpleNamespace(discard=busy)
    hypervisor._power_off(machine, None)
    assert (machine.state, machine.gone.is_set(), hypervisor._left) == ("terminated", True, True)
    assert "umount: target is busy" in machine.console


def test_other_calls_do_not_wait_while_a_disk_is_deleted(hypervisor: NspawnHypervisor) -> None:
    machine: Any = Machine(keeps_disk=False)
    free: list[bool] = []

    def discard() -> None:
        free.append(hypervisor._ends.acquire(blocking=False))
        hypervisor._ends.release()

    machine.root = SimpleNamespace(discard=discard)
    machine.state = "stopped"
    hypervisor._machines["i-1"] = machine
    hypervisor.terminate("i-1")
    assert free == [True]
    assert machine.state == "terminated"


@pytest.mark.timeout(30)
def test_a_process_that_has_not_joined_its_group_yet_ends_too() -> None:
    """The instance is terminated while the shell that starts its guest is about to write into cgroup.procs."""
    spec: Any = SimpleNamespace(instance_id="i-1")
    machine = RealMachine(spec, BootFault(never_boots=True), Any, (), "lc-test-no-such-group")  # type: ignore[arg-type]
    machine.process = subprocess.Popen(["sleep", "60"])
    machine.end(hard=False, keep_disk=False)
    machine.wait(lambda _: None)
    assert machine.process.poll() == -9
