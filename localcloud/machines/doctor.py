"""What this machine has and lacks for running instances."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.machines import cgroups
from localcloud.machines.image import KEYRING

WANTED_DISK_GIB = 15
# required command -> Debian and Ubuntu package that has it
COMMANDS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "dnsmasq": "dnsmasq-base",
    "nft": "nftables",
    "ip": "iproute2",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "nsenter": "util-linux",
}


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    found: str
    advice: str = ""  # what to do if it is not ok


def findings(state_dir: Path = Path("/var/lib/localcloud")) -> list[Finding]:
    """Every check, in a sensible order for fixing."""
    found = [_linux(), _root(), *_packages(), _cgroups(), _disk(state_dir)]
    ready = os.geteuid() == 0 and not missing_packages()
    return [*found, *_kernel(), _forwarding()] if ready else found


def _linux() -> Finding:
    system = os.uname()
    right = system.sysname == "Linux" and system.machine == "x86_64"
    return Finding("system", right, f"{system.sysname} {system.release} {system.machine}", "use Linux on x86-64")


def _root() -> Finding:
    uid = os.geteuid()
    return Finding("root", uid == 0, f"uid {uid}", "run it as root, for instance with sudo")


def missing_packages() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [package for command, package in COMMANDS.items() if shutil.which(command, path=path) is None]
    return sorted({*missing, *([] if KEYRING.exists() else ["debian-archive-keyring"])})


def _packages() -> Iterator[Finding]:
    missing = missing_packages()
    if not missing:
        yield Finding("packages", True, "all there")
    elif shutil.which("apt-get") is None:
        yield Finding("packages", False, f"missing: {', '.join(missing)}, and no apt-get", "use Debian or Ubuntu")
    else:
        advice = f"apt-get install --no-install-recommends {' '.join(missing)}"
        yield Finding("packages", False, f"missing: {', '.join(missing)}", advice)


def _cgroups() -> Finding:
    mode = cgroups.mode()
    advice = "mount cgroup2 at /sys/fs/cgroup (or at /sys/fs/cgroup/unified beside version 1)"
    return Finding("control groups", mode in ("unified", "hybrid"), mode, advice)


def _disk(state_dir: Path) -> Finding:
    folder = next(path for path in (state_dir, *state_dir.parents) if path.exists())
    free_gib = shutil.disk_usage(folder).free >> 30
    enough = free_gib >= WANTED_DISK_GIB
    return Finding("disk", enough, f"{free_gib} GiB free at {folder}", f"free {WANTED_DISK_GIB} GiB there")


def _kernel() -> Iterator[Finding]:
    probes: dict[str, tuple[Callable[[], str], str]] = {
        "overlay file system": (
            _probe_overlay,
            "use a kernel with overlayfs, and a disk that is not itself an overlay",
        ),
        "network namespaces": (_probe_network, "use a kernel with network namespaces, veth and bridge"),
        "nftables": (_probe_nft, "use a kernel with nf_tables and NAT"),
        "loop devices": (_probe_loop, "use a kernel with loop devices (in a container: give it /dev/loop-control)"),
    }
    for name, (probe, advice) in probes.items():
        trouble = probe()
        yield Finding(name, not trouble, trouble or "works", advice)


def _said(argv: list[str], stdin: str | None = None) -> str:
    """The output of a failed command; empty if it succeeded."""
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr or done.stdout or f"status {done.returncode}").strip() if done.returncode else ""


def _probe_overlay() -> str:
    state = Path("/var/lib/localcloud")
    where = state if state.is_dir() else Path("/var/lib")
    with tempfile.TemporaryDirectory(prefix=".localcloud-probe-", dir=where) as scratch:
        for name in ("lower", "upper", "work", "root"):
            Path(scratch, name).mkdir()
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        return _in_namespace("--mount", f"mount -t overlay probe -o {options} {scratch}/root")


def _probe_network() -> str:
    commands = "ip link add probe0 type veth peer name probe1 && ip link add probe2 type bridge"
    return _in_namespace("--net", commands)


def _probe_nft() -> str:
    rule = "add table ip p; add chain ip p n { type nat hook postrouting priority 100; }; add rule ip p n masquerade"
    return _in_namespace("--net", f"nft '{rule}'")


def _forwarding() -> Finding:
    """Docker, for example, drops packets that the host forwards unless a rule allows them."""
    argv = ["nft", "list", "chain", "ip", "filter", "FORWARD"]
    rules = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    others = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False).stdout
    dropped = "policy drop" in rules and '"lc-' not in others
    advice = "iptables -I FORWARD -i lc-+ -j ACCEPT && iptables -I FORWARD -o lc-+ -j ACCEPT"
    return Finding("forwarding", not dropped, "the firewall drops forwarded packets" if dropped else "works", advice)


def _in_namespace(kind: str, commands: str) -> str:
    """In its own namespace, so that nothing stays."""
    return _said(["unshare", kind, "sh", "-c", commands])


def _probe_loop() -> str:
    return _said(["losetup", "--find"])


def as_json(found: list[Finding]) -> str:
    return json.dumps([asdict(finding) for finding in found], indent=2)
