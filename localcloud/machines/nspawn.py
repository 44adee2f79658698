"""Starts one guest: the arguments of systemd-nspawn, and the search for its init."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.machines.spec import Container

# No --private-users: in its own user namespace a guest may neither mount ext4 (EPERM from mount(2)) nor set up cards of
# a network namespace that the host has created. docs/local-cloud.md says what keeps other users of the host out.
# The default of Docker and Debian, plus what mount helpers, Slurm, MPI and network set-up in a guest need.
CAPABILITIES = "CAP_NET_ADMIN,CAP_NET_RAW,CAP_SYS_NICE,CAP_IPC_LOCK,CAP_SYS_RESOURCE"
REBOOT = 133  # nspawn's exit code, with --keep-unit, if the guest reboots
GRACEFUL = "SIGRTMIN+3"  # systemd's word for "power off"
ENVIRONMENT = {
    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",  # DHCP clients write below /proc/sys/net
    "SYSTEMD_NSPAWN_LOCK": "0",  # its lock files would stay in /run
    "SYSTEMD_NSPAWN_TMPFS_TMP": "0",  # /tmp is on the root disk, as in Ubuntu's images
}


PROPAGATE = Path("/run/systemd/nspawn/propagate")


@dataclass(frozen=True)
class Bind:
    source: Path
    target: str
    read_only: bool = False

    def option(self) -> str:
        return f"--bind{'-ro' if self.read_only else ''}={self.source}:{self.target}"


def argv(machine: str, root: Path, netns: str, binds: Sequence[Bind], *, boots: bool = True) -> list[str]:
    """Without `boots`, a sleeper replaces init: a machine that runs and never comes up."""
    init = ["--boot"] if boots else ["--as-pid2"]
    return [
        *_common(machine, root, netns),
        "--hostname=localhost",
        "--console=read-only",
        f"--kill-signal={GRACEFUL}",
        *(bind.option() for bind in binds),
        *init,
        *([] if boots else ["sleep", "infinity"]),
    ]


def container_argv(machine: str, root: Path, netns: str, binds: Sequence[Bind], container: Container) -> list[str]:
    """Its program is a child of a shell, which turns the program's signal into an exit code: nspawn's init does not."""
    return [
        *_common(machine, root, netns),
        f"--hostname={container.host_name}",
        "--console=pipe",
        *(bind.option() for bind in binds),
        *(f"--setenv={name}={value}" for name, value in container.environment.items()),
        "--as-pid2",
        "--",
        *("/bin/sh", "-c", '"$@"; exit $?', "sh"),
        *container.command,
    ]


def _common(machine: str, root: Path, netns: str) -> list[str]:
    return [
        "nsenter",
        # nspawn's own --network-namespace-path leaves the host's /sys inside, where cloud-init finds the wrong cards
        f"--net=/run/netns/{netns}",
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        f"--directory={root}",
        f"--machine={machine}",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        f"--capability={CAPABILITIES}",
    ]


def program(leader: int | None) -> int | None:
    """A container's program: the child of the shell that is the only child of nspawn's init."""
    for shell in _children(leader) if leader else ():
        for pid in _children(shell):
            return pid
    return None


def start(
    command: Sequence[str], cgroups: Sequence[Path], console: Path, *, silent: bool = False
) -> subprocess.Popen[bytes]:
    """Starts nspawn inside its control groups, with its console in a file. `silent`: without nspawn's own errors."""
    join = "".join(f"echo $$ > '{group}/cgroup.procs'; " for group in cgroups)
    with console.open("ab") as output:
        return subprocess.Popen(
            ["sh", "-c", f'{join}exec "$@"', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, **({"SYSTEMD_LOG_LEVEL": "crit"} if silent else {})},
            start_new_session=True,
        )


def forget(machine: str) -> None:
    """Removes the folder that nspawn creates for each machine and leaves behind if /run is on a disk."""
    with contextlib.suppress(OSError):
        (PROPAGATE / machine).rmdir()


def leader(nspawn_pid: int) -> int | None:
    """The guest's init by its number on the host: nspawn's child that is process 1 of its namespace."""
    for pid in _children(nspawn_pid):
        if _namespace_pid(pid) == 1:
            return pid
    return None


def is_inside(pid: int, leader: int | None) -> bool:
    """Whether a process belongs to the guest with this init."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{leader}/ns/pid")
    except OSError:
        return False


def _children(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return [pid for pid in _all_pids() if _status(pid, "PPid") == [str(parent)]]


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _namespace_pid(pid: int) -> int | None:
    numbers = _status(pid, "NSpid")
    return int(numbers[-1]) if len(numbers) > 1 else None


def _status(pid: int, key: str) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next((line.split()[1:] for line in lines if line.startswith(f"{key}:")), [])
