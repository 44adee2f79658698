"""Addresses for guests: one dnsmasq per VPC, with every guest's hardware address."""

from __future__ import annotations

import ipaddress
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localcloud.machines.networks.addressing import RESOLVER_ADDRESS, VPC_MTU, gateway, host_name
from localcloud.machines.processes import end, start_time


@dataclass(frozen=True)
class Subnet:
    subnet_id: str
    cidr: str


def configuration(subnets: Iterable[Subnet], domain: str, folder: Path) -> str:
    lines = [
        "port=0",
        "interface=br0",
        "bind-dynamic",
        "dhcp-authoritative",
        "no-ping",
        "user=root",
        f"domain={domain}",
        f"dhcp-hostsdir={folder / 'hosts'}",
        f"dhcp-leasefile={folder / 'leases'}",
        f"log-facility={folder / 'dnsmasq.log'}",
        "pid-file=",
        f"dhcp-option=option:dns-server,{RESOLVER_ADDRESS}",
        f"dhcp-option=option:domain-search,{domain}",
        f"dhcp-option=option:mtu,{VPC_MTU}",
    ]
    for subnet in sorted(subnets, key=lambda subnet: subnet.cidr):
        network = ipaddress.ip_network(subnet.cidr)
        lines.append(f"dhcp-range=set:{subnet.subnet_id},{network.network_address},static,{network.netmask},1h")
        lines.append(f"dhcp-option=tag:{subnet.subnet_id},option:router,{gateway(subnet.cidr)}")
    return "\n".join((*lines, ""))


def host_line(mac: str, private_ip: str) -> str:
    return f"{mac},{private_ip},{host_name(private_ip)},infinite\n"


def without_lease_of_others(leases: str, mac: str, private_ip: str) -> str:
    """`leases`: dnsmasq's file, one `EXPIRY MAC ADDRESS NAME CLIENT` a line."""
    fields = ((line, line.split()) for line in leases.splitlines(keepends=True))
    return "".join(line for line, words in fields if words[2:3] != [private_ip] or words[1] == mac)


class DhcpServer:
    """dnsmasq in a VPC's namespace. A new subnet restarts it; it notices a new guest's file. Guests that boot together
    call from their own threads, one at a time."""

    def __init__(self, folder: Path, netns: str, domain: str, cgroups: Iterable[Path]) -> None:
        self._folder = folder
        self._netns = netns
        self._domain = domain
        self._cgroups = tuple(cgroups)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        (folder / "hosts").mkdir(parents=True, exist_ok=True)
        self._known = {words[2]: words[1] for words in map(str.split, self._leases().splitlines())}
        """Address -> MAC address of its last guest."""

    def serve(self, subnets: Iterable[Subnet]) -> None:
        with self._lock:
            self.close()
            self._conf.write_text(configuration(subnets, self._domain, self._folder))
            self._start()

    @property
    def _conf(self) -> Path:
        return self._folder / "dnsmasq.conf"

    def _start(self) -> None:
        join = "".join(f"echo $$ > '{group}/cgroup.procs'; " for group in self._cgroups)
        command = f"{join}exec nsenter --net=/run/netns/{self._netns} dnsmasq -k --conf-file='{self._conf}'"
        self._process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True)

    def add(self, instance_id: str, mac: str, private_ip: str) -> None:
        with self._lock:
            (self._folder / "hosts" / instance_id).write_text(host_line(mac, private_ip))
            self._forget_others(mac, private_ip)

    def _forget_others(self, mac: str, private_ip: str) -> None:
        """EC2 reuses addresses. dnsmasq 2.90 would keep the address of a terminated guest for that guest: it has
        a lease, or read the guest's file ("duplicate dhcp-host IP address"). Its file of leases is read only while it
        does not run, because it truncates the file before it writes it."""
        if self._known.get(private_ip, mac) != mac:
            self.close()
            (self._folder / "leases").write_text(without_lease_of_others(self._leases(), mac, private_ip))
            self._start()
        self._known[private_ip] = mac

    def _leases(self) -> str:
        path = self._folder / "leases"
        return path.read_text() if path.exists() else ""

    def remove(self, instance_id: str) -> None:
        (self._folder / "hosts" / instance_id).unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            if self._process is None:
                return
            started = start_time(self._process.pid)
            if started is not None:
                end(self._process.pid, started)
            self._process.wait()
            self._process = None
