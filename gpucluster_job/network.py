"""Addresses, interfaces and ports of the job's nodes."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

FIRST_PORT, LAST_PORT = 20000, 29999


class NetworkError(RuntimeError):
    """The message says what was not found, and where."""


def address_of(node: str) -> str:
    """The node's address in the cluster's network. Some images map a host's own name to 127.0.1.1; then Slurm's address
    is used."""
    address = next(iter(addresses_of([node])), "") or _slurms_address(node)
    if not address or address.startswith("127."):
        raise NetworkError(f"the name {node} leads to no address in the cluster's network (got '{address}')")
    return address


def addresses_of(nodes: Sequence[str]) -> list[str]:
    """Those of all nodes whose names lead to one in the cluster's network, by one process."""
    found = (line.split()[0] for line in _output(["getent", "ahostsv4", *nodes]).splitlines() if line.strip())
    return list(dict.fromkeys(each for each in found if not each.startswith("127.")))


def _slurms_address(node: str) -> str:
    match = re.search(r" NodeAddr=([0-9.]+) ", _output(["scontrol", "show", "node", "--oneliner", node]))
    return match[1] if match else ""


def interface_of(address: str) -> str:
    """The interface of this node that has the address."""
    interface = _shown(address)[0] if shutil.which("ip") else interface_by_route(address)
    if not interface:
        raise NetworkError(f"no network interface of {socket.gethostname()} has the address {address}")
    return interface


def network_of(address: str) -> str:
    """The network of this node's address as CIDR: 10.0.0.17/24. "" if no interface has the address."""
    return _shown(address)[1]


def _shown(address: str) -> tuple[str, str]:
    words = _output(["ip", "-oneline", "-4", "address", "show", "to", address]).split()
    return (words[1], words[3]) if len(words) > 3 else ("", "")


def interface_by_route(address: str) -> str:
    """The interface whose network contains the address, from the kernel's routing table. Images often have no `ip`."""
    (number,) = struct.unpack("=I", socket.inet_aton(address))
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        name, destination, *_, mask, _, _, _ = line.split()
        if int(mask, 16) and number & int(mask, 16) == int(destination, 16):
            return name
    return ""


def _output(argv: list[str]) -> str:
    """ "" if the program fails or does not exist."""
    try:
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    except OSError:
        return ""


class Port:
    """Reserves a port of this node for the job, for the lifetime of this object: a socket has it, without listening.

    No other job takes the port, because it asks for one that no socket has. The job's own server takes it with
    SO_REUSEADDR, as servers do: Linux allows that while both sockets have the option and neither listens (socket(7),
    inet_csk_bind_conflict in net/ipv4/inet_connection_sock.c). No file is involved, whose name another user could take.
    Linux does not ask whose sockets they are: another user of the node could take the port first. The job's server then
    fails, and nobody reaches that user's (bootstrap/steps/system/job_firewall.sh), but on a node that they share.

    The search starts at a place in 20000-29999 that the job's id gives. That range is below Linux's ephemeral ports
    (32768 and up), which any connection may use, and above Slurm's. If it is full, Linux chooses a port.
    """

    def __init__(self) -> None:
        start, count = int(os.environ["SLURM_JOB_ID"]), LAST_PORT + 1 - FIRST_PORT
        found = (_reserved(FIRST_PORT + (start + step) % count) for step in range(count))
        reservation = next(filter(None, found), None) or _reserved(0)
        if reservation is None:
            raise NetworkError(f"{socket.gethostname()} has no free port")
        self._socket = reservation
        self.number: int = reservation.getsockname()[1]

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


def _reserved(port: int) -> socket.socket | None:
    """None if a socket has the port, also of a connection that ended a minute ago."""
    reservation = socket.socket()
    try:
        reservation.bind(("", port))
    except OSError:
        reservation.close()
        return None
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reservation
