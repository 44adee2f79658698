"""One guest's root: an overlay on its machine image, and the files written into it before the first boot."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from localcloud.machines.kernel_log import KernelLog
from localcloud.machines.networks.addressing import RESOLVER_ADDRESS
from localcloud.machines.nspawn import Bind
from localcloud.machines.processes import run
from localcloud.machines.spec import Hardware, InstanceSpec

PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin")


class Root:
    """The folders below machines/<instance-id>/ and the overlay that is mounted there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "root"
        self.host = folder / "host"  # the guest's /run/localcloud
        self.console = folder / "console.log"
        self.upper = folder / "upper"  # all changes of the guest
        self.kernel_log = KernelLog(folder / "kmsg")

    def mount(self, layers: Sequence[Path]) -> None:
        """`layers`: of the machine image, the topmost first."""
        for name in ("upper", "work", "root", "host", "hypervisor"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={':'.join(map(str, layers))},upperdir={self.upper},workdir={self.folder / 'work'}"
        run(["mount", "-t", "overlay", f"localcloud-{self.folder.name}", "-o", options, str(self.path)])

    def prepare(self, spec: InstanceSpec, broken_commands: Mapping[str, str], layers: Sequence[Path]) -> None:
        self.show(spec.hardware)
        # in containers, where DMI has no data, cloud-init recognises EC2 by this file
        (self.folder / "hypervisor" / "uuid").write_text(f"ec2{spec.instance_id[-5:]}-0000-4000-8000-{'0' * 12}\n")
        for command, line in broken_commands.items():
            for path in command_paths(command, layers):
                _write_script(self.path / path, line)

    def resolve_names(self) -> None:
        """Without an operating system nothing writes this file; in the image it is a link to systemd's."""
        path = self.path / "etc/resolv.conf"
        path.unlink(missing_ok=True)
        path.write_text(f"nameserver {RESOLVER_ADDRESS}\n")

    def show(self, hardware: Hardware) -> None:
        """The guest's stand-ins read the file at each call, so it is replaced as a whole."""
        new = self.host / "hardware.json.new"
        new.write_text(json.dumps(hardware_facts(hardware), indent=2))
        new.replace(self.host / "hardware.json")

    def trust(self, certificates: str) -> None:
        """Written once: a stopped guest that starts again has them."""
        own = self.path / "usr/local/share/ca-certificates/localcloud.crt"
        if not certificates or own.exists():
            return
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(certificates)
        with (self.path / "etc/ssl/certs/ca-certificates.crt").open("a") as bundle:
            bundle.write(certificates)

    def forget_endpoint(self) -> None:
        """Takes the variable with the API's address out of the files that the image has it in. Lines that the guest
        itself wrote into them stay."""
        for name in ("etc/environment", "etc/systemd/system.conf.d/aws.conf"):
            path = self.path / name
            lines = path.read_text().splitlines(keepends=True)
            kept = [line for line in lines if "AWS_ENDPOINT_URL=" not in line]
            if kept != lines:
                path.write_text("".join(kept))

    def binds(self, spec: InstanceSpec, wheels: Path | None) -> list[Bind]:
        binds = [
            Bind(self.host, "/run/localcloud"),
            Bind(self.kernel_log.path, "/dev/kmsg"),
            Bind(self.folder / "hypervisor", "/sys/hypervisor", read_only=True),
            *(Bind(Path("/dev/null"), f"/dev/{name}") for name in gpu_devices(spec.hardware.gpus)),
        ]
        if spec.container:
            container = spec.container
            binds += [Bind(own, path, path in container.read_only) for path, own in sorted(container.folders.items())]
        return [*binds, Bind(wheels, "/opt/wheels", read_only=True)] if wheels else binds

    def unmount(self) -> None:
        """Unmounts the overlay; the guest's changes stay for the next `mount`."""
        run(["umount", "--lazy", str(self.path)], check=False)

    def discard(self) -> None:
        """Deletes all changes of the guest; its console stays."""
        for name in ("upper", "work", "root", "host", "hypervisor"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def gpu_devices(gpus: int) -> list[str]:
    return [*(f"nvidia{number}" for number in range(gpus)), "nvidiactl"] if gpus else []


def hardware_facts(hardware: Hardware) -> dict[str, object]:
    return asdict(hardware)


def command_paths(command: str, layers: Sequence[Path]) -> list[str]:
    """Where a broken command is placed: first on PATH, and over the real one, for callers that use its path."""
    # Links are not resolved here: /etc/alternatives, the target of many, is the image's and not this machine's.
    there = (path for folder in PATH for layer in layers if os.path.lexists(layer / (path := f"{folder}/{command}")))
    found = next(there, None)
    first = f"{PATH[0]}/{command}"
    return [first] if found in (None, first) else [first, found]


def _write_script(path: Path, line: str) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(line)} >&2\nexit 1\n")
    path.chmod(0o755)
