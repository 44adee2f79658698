"""One instance, from the creation of its first file to the removal of the last."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.machines import cgroups, nspawn, processes
from localcloud.machines.rootfs import Root
from localcloud.machines.spec import BootFault, InstanceSpec

GRACE_S = 30.0
REBOOT_SIGNAL = signal.SIGRTMIN + 5
WATCH_INTERVAL_S = 0.25
NEVER_BOOTS = "localcloud: fault `never-boots`: this instance runs and its operating system never comes up\n"


@dataclass
class Machine:
    """One run of a guest, from power on to power off.

    `state` goes pending -> running -> shutting-down -> terminated, or, if its disk is kept, running -> stopping ->
    stopped, and never back: a stopped instance that starts again is a new Machine with the same root.
    """

    spec: InstanceSpec
    fault: BootFault
    root: Root
    layers: tuple[Path, ...]  # of the machine image, the topmost first
    cgroup: str  # relative to each hierarchy's root
    state: str = "pending"
    hard: bool = False
    asked: bool = False  # somebody asked it to end; otherwise the guest has powered itself off
    keeps_disk: bool = False  # it is stopped, not terminated
    stopping: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None
    _launch: Callable[[], subprocess.Popen[bytes]] = field(init=False)

    def boot(self, netns: str, wheels: Path | None, trusted: str, *, told_endpoint: bool) -> None:
        """Starts the guest, after the fault's delay if it has one, unless it is ended before."""
        self.root.mount(self.layers)
        self.root.prepare(self.spec, self.fault.broken_commands, self.layers)
        self.root.trust(trusted)
        if not told_endpoint:
            self.root.forget_endpoint()
        self.root.kernel_log.open()
        groups = cgroups.create(self.cgroup)
        if self.stopping.wait(self.fault.delay_s):
            return
        boots = not self.fault.never_boots
        if not boots:
            self.say(NEVER_BOOTS)
        binds = self.root.binds(self.spec, wheels)
        command = nspawn.argv(self.spec.instance_id, self.root.path, netns, binds, boots=boots)
        if container := self.spec.container:
            self.root.resolve_names()
            command = nspawn.container_argv(self.spec.instance_id, self.root.path, netns, binds, container)
        silent = self.spec.container is not None  # its console is its program's output
        self._launch = lambda: nspawn.start(command, groups, self.root.console, silent=silent)
        self.process = self._launch()

    def leader(self) -> int | None:
        return nspawn.leader(self.process.pid) if self.process and self.process.poll() is None else None

    def say(self, text: str) -> None:
        """Writes a line to the instance's console, where users look for the reason."""
        with self.root.console.open("a") as console:
            console.write(text)

    def ready_leader(self) -> int | None:
        """The guest's init, once it has its own root and /dev, which nspawn sets up first."""
        leader = self.leader()
        return leader if leader and Path(f"/proc/{leader}/root/run/localcloud/hardware.json").exists() else None

    def wait(self, on_boot: Callable[[int], None]) -> None:
        """Waits until the guest has ended, on its own or by `stop`; a reboot is not an end.

        `on_boot` is called with each new init.
        """
        if self.process is None:
            return
        before: int | None = None
        while not self.stopping.wait(WATCH_INTERVAL_S):
            if self.process.poll() == nspawn.REBOOT and not self.spec.container:
                self.process = self._launch()
            if self.process.poll() is not None:
                break
            leader = self.ready_leader()
            if leader and leader != before:
                on_boot(leader)
            before = leader or before
        if self.process.poll() is None:
            self._shut_down()
        self.process.kill()  # by its number, because a process that has just begun has not joined its group yet
        self.process.wait()
        cgroups.kill(self.cgroup)

    def _shut_down(self) -> None:
        """Asks init to power off and gives it time; a sleeper has no init."""
        assert self.process is not None
        started = processes.start_time(self.process.pid)
        if started is not None and not self.fault.never_boots:
            processes.send(self.process.pid, started, 15)  # nspawn passes its kill signal on to init
        deadline = time.monotonic() + (0 if self.fault.never_boots else GRACE_S)
        while not self.hard and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)

    def end(self, *, hard: bool, keep_disk: bool) -> None:
        """Begins the end of this run. Terminating a stopping guest removes its disk too."""
        self.hard = self.hard or hard
        self.keeps_disk = keep_disk and (self.keeps_disk or not self.asked)
        self.asked = True
        self.state = "stopping" if self.keeps_disk else "shutting-down"
        self.stopping.set()

    def reboot(self) -> None:
        """systemd's command for it; without a listener nothing happens."""
        leader = self.leader()
        started = processes.start_time(leader) if leader else None
        if leader and started is not None and not self.fault.never_boots:
            processes.send(leader, started, REBOOT_SIGNAL)

    def signal(self, number: int) -> bool:
        """To a container's program; False if there is none."""
        program = nspawn.program(self.leader())
        started = processes.start_time(program) if program else None
        if program and started is not None:
            processes.send(program, started, number)
        return started is not None

    def written(self, start: int) -> bytes:
        try:
            with self.root.console.open("rb") as console:
                console.seek(start)
                return console.read()
        except OSError:
            return b""

    def console_output(self) -> str:
        try:
            return self.root.console.read_bytes().decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            return ""
