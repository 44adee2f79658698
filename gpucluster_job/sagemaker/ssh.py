"""SSH between the hosts of a job, for launchers that start all ranks from the first host.

Its keys last as long as the job, so an image needs only the programs ssh, ssh-keygen and sshd, and no keys of its own:
the first host makes a key, and gives the public half to the other hosts (meeting.py).
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path

from gpucluster_job.sagemaker import place
from gpucluster_job.settings import GaveUp

STARTS_S = 20.0
INSTALL = "install openssh-client and openssh-server in the image, or choose the launcher torchrun"
_SBIN = "/usr/sbin"


def program(name: str) -> str:
    """Raises GaveUp."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
    if not found:
        raise GaveUp(f"{name}: not found; horovodrun and mpirun start the ranks of other hosts over SSH: {INSTALL}")
    return found


def make_key(folder: Path, name: str) -> str:
    """The public half of a new key pair `name`."""
    for left in (folder / name, folder / f"{name}.pub"):
        left.unlink(missing_ok=True)
    made = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "gpucluster", "-f", str(folder / name)]
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    return (folder / f"{name}.pub").read_text(encoding="ascii").strip()


def make_client(folder: Path, key: str, port: int) -> str:
    """A program `ssh` that logs in on the hosts of this job. Returns its path."""
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
    words = [program("ssh"), "-p", str(port), "-i", str(folder / key), *(f"-o{option}" for option in options)]
    place_of_it = folder / "bin" / "ssh"
    place_of_it.parent.mkdir(exist_ok=True)
    place_of_it.write_text(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$@"\n', encoding="utf-8")
    place_of_it.chmod(0o755)
    return str(place_of_it)


def server_config(folder: Path, address: str, port: int) -> str:
    return f"""\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
ClientAliveInterval 30
ForceCommand {" ".join(map(shlex.quote, place.words("sagemaker-login", str(folder))))}
"""


def start_server(folder: Path, key: str, address: str, port: int) -> subprocess.Popen[bytes]:
    """Returns when it listens. Raises GaveUp."""
    sshd = program("sshd")
    make_key(folder, "host_key")
    (folder / "authorized_keys").write_text(f"{key}\n", encoding="ascii")
    config = folder / "sshd_config"
    config.write_text(server_config(folder, address, port), encoding="utf-8")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # otherwise: Missing privilege separation directory
    log = folder / "sshd.log"
    server = subprocess.Popen([sshd, "-D", "-f", str(config), "-E", str(log)], stdin=subprocess.DEVNULL)
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection((address, port), timeout=1.0).close()
            return server
        except OSError:
            time.sleep(0.1)
    server.kill()
    server.wait()
    said = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    raise GaveUp(f"{sshd} does not listen on {address}, port {port}: {said[-1] if said else 'it printed nothing'}")
