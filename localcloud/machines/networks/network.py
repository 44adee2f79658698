"""The cloud's network: a hub namespace with the way out, and a namespace per VPC behind it.

    host ── lc-<id>-up ──► hub `lc-<id>` (the API's address) ──► VPC `lc-<id>-<vpc>` (bridge, gateways,
    metadata, resolver) ──► guests' own namespaces

A namespace per VPC, because two VPCs may use the same addresses.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.machines.networks import addressing, firewall
from localcloud.machines.networks.addressing import VPC_MTU
from localcloud.machines.networks.dhcp import DhcpServer, Subnet
from localcloud.machines.networks.namespaces import inside
from localcloud.machines.processes import run
from localcloud.machines.spec import InstanceSpec

ROUTER_MAC = "02:fe:00:00:00:01"
"""Every VPC's router has it. By default a bridge takes a guest's address, and another one when that guest leaves: the
other guests would not reach the router until they ask for its address again."""


@dataclass
class Vpc:
    vpc_id: str
    netns: str
    addresses: tuple[str, ...]  # on which names are answered
    dhcp: DhcpServer
    index: int
    subnets: dict[str, Subnet] = field(default_factory=dict)
    guests: set[str] = field(default_factory=set)
    stop: Callable[[], None] = lambda: None  # ends the services inside it


class Network:
    """Owns the namespaces and links of one cloud. A VPC's namespace exists from its first guest to its last.

    `on_vpc` starts the services of a new VPC and returns a function that ends them.
    """

    def __init__(
        self, cloud_id: str, folder: Path, cgroups: Iterable[Path], on_vpc: Callable[[Vpc], Callable[[], None]]
    ) -> None:
        self._cloud_id = cloud_id
        self._folder = folder
        self._cgroups = tuple(cgroups)
        self._on_vpc = on_vpc
        self._vpcs: dict[str, Vpc] = {}
        self._lock = threading.Lock()
        self.hub = addressing.hub_netns(cloud_id)
        self._mtu = _uplink_mtu()
        self._make_hub()

    def _make_hub(self) -> None:
        host, cloud = addressing.uplink_pair(self._cloud_id, _routes())
        uplink = addressing.uplink_name(self._cloud_id)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        run(["ip", "netns", "add", self.hub])
        ip_batch(hub_commands(self.hub, uplink, host, self._mtu))
        ip_batch(hub_inside_commands(cloud, host, self._mtu), netns=self.hub)
        nft(firewall.host_rules(self._cloud_id, cloud, uplink))
        _make_router(self.hub, firewall.hub_rules())

    def vpc(self, vpc_id: str) -> Vpc | None:
        return self._vpcs.get(vpc_id)

    def join(self, spec: InstanceSpec) -> str:
        """Creates the guest's namespace with its card in the VPC; returns the namespace's name."""
        with self._lock:
            vpc = self._vpcs.get(spec.vpc_id) or self._make_vpc(spec)
            vpc.guests.add(spec.instance_id)
            self._ensure_subnet(vpc, spec)
        primary = spec.interfaces[0]
        if primary.private_ip is None:
            raise ValueError(f"instance {spec.instance_id}: the primary interface has no private address")
        vpc.dhcp.add(spec.instance_id, primary.mac, primary.private_ip)
        netns = addressing.guest_netns(self._cloud_id, spec.instance_id)
        run(["ip", "netns", "add", netns])
        inside(netns, _skip_duplicate_detection)
        ip_batch(guest_commands(spec.instance_id, primary.mac, netns), netns=vpc.netns)
        if spec.container:
            ip_batch(container_commands(primary.private_ip, spec.subnet_cidr), netns=netns)
        return netns

    def leave(self, spec: InstanceSpec) -> None:
        """The guest's card is deleted with its namespace."""
        with self._lock:
            vpc = self._vpcs.get(spec.vpc_id)
            if vpc:
                vpc.dhcp.remove(spec.instance_id)
                run(["ip", "-n", vpc.netns, "link", "del", addressing.guest_link_name(spec.instance_id)], check=False)
                vpc.guests.discard(spec.instance_id)
            run(["ip", "netns", "del", addressing.guest_netns(self._cloud_id, spec.instance_id)], check=False)
            if vpc and not vpc.guests:
                self._close_vpc(vpc)

    def cut(self, spec: InstanceSpec) -> None:
        """Takes the guest's cable out of the bridge. The guest's card keeps its carrier, as on EC2: it sends, and
        nothing answers."""
        self._plug(spec, "nomaster")

    def mend(self, spec: InstanceSpec) -> None:
        self._plug(spec, "master br0")

    def _plug(self, spec: InstanceSpec, where: str) -> None:
        with self._lock:
            if vpc := self._vpcs.get(spec.vpc_id):
                ip_batch([f"link set {addressing.guest_link_name(spec.instance_id)} {where}"], netns=vpc.netns)

    def _close_vpc(self, vpc: Vpc) -> None:
        del self._vpcs[vpc.vpc_id]
        vpc.stop()
        vpc.dhcp.close()
        run(["ip", "-n", self.hub, "link", "del", f"vpc{vpc.index}"], check=False)
        run(["ip", "netns", "del", vpc.netns], check=False)

    def _make_vpc(self, spec: InstanceSpec) -> Vpc:
        netns = addressing.vpc_netns(self._cloud_id, spec.vpc_id)
        resolver = addressing.vpc_resolver(spec.vpc_cidr)
        index = self._free_index()
        hub_address, vpc_address = addressing.vpc_pair(index)
        run(["ip", "netns", "add", netns])
        ip_batch(vpc_link_commands(index, hub_address, netns, self._mtu), netns=self.hub)
        ip_batch(vpc_inside_commands(vpc_address, hub_address, resolver, self._mtu), netns=netns)
        _make_router(netns, firewall.vpc_rules())
        domain = addressing.search_domain(spec.region)
        server = DhcpServer(self._folder / spec.vpc_id, netns, domain, self._cgroups)
        vpc = Vpc(spec.vpc_id, netns, (addressing.RESOLVER_ADDRESS, resolver), server, index)
        self._vpcs[spec.vpc_id] = vpc
        vpc.stop = self._on_vpc(vpc)
        return vpc

    def _free_index(self) -> int:
        used = {vpc.index for vpc in self._vpcs.values()}
        return next(index for index in range(len(used) + 1) if index not in used)

    def _ensure_subnet(self, vpc: Vpc, spec: InstanceSpec) -> None:
        """A subnet's route to the internet may change between launches: the last launch decides."""
        rule = firewall.allow_internet if spec.internet else firewall.deny_internet
        nft(rule(spec.subnet_cidr), netns=vpc.netns)
        if spec.subnet_id in vpc.subnets:
            return
        vpc.subnets[spec.subnet_id] = Subnet(spec.subnet_id, spec.subnet_cidr)
        length = addressing.prefix_length(spec.subnet_cidr)
        run(["ip", "-n", vpc.netns, "addr", "add", f"{addressing.gateway(spec.subnet_cidr)}/{length}", "dev", "br0"])
        vpc.dhcp.serve(vpc.subnets.values())

    def close(self) -> None:
        for vpc in list(self._vpcs.values()):
            self._close_vpc(vpc)
        run(["ip", "link", "del", addressing.uplink_name(self._cloud_id)], check=False)
        run(["ip", "netns", "del", self.hub], check=False)
        run(["nft", "delete", "table", "ip", firewall.host_table(self._cloud_id)], check=False)


def hub_commands(hub: str, uplink: str, host_address: str, mtu: int) -> list[str]:
    return [
        f"link add {uplink} mtu {mtu} type veth peer name uplink netns {hub}",
        f"addr add {host_address}/30 dev {uplink}",
        f"link set {uplink} up",
    ]


def hub_inside_commands(cloud_address: str, host_address: str, mtu: int) -> list[str]:
    return [
        "link set lo up",
        f"addr add {addressing.API_ADDRESS}/32 dev lo",
        f"addr add {addressing.CREDENTIALS_ADDRESS}/32 dev lo",
        f"addr add {addressing.TRUSTSTORE_ADDRESS}/32 dev lo",
        f"addr add {addressing.PUBLIC_ADDRESS}/32 dev lo",
        f"link set uplink mtu {mtu} up",
        f"addr add {cloud_address}/30 dev uplink",
        f"route add default via {host_address}",
    ]


def vpc_link_commands(index: int, hub_address: str, netns: str, mtu: int) -> list[str]:
    return [
        f"link add vpc{index} mtu {mtu} type veth peer name uplink netns {netns}",
        f"addr add {hub_address}/30 dev vpc{index}",
        f"link set vpc{index} up",
    ]


def vpc_inside_commands(vpc_address: str, hub_address: str, resolver: str, mtu: int) -> list[str]:
    return [
        "link set lo up",
        f"link set uplink mtu {mtu} up",
        f"addr add {vpc_address}/30 dev uplink",
        f"route add default via {hub_address}",
        f"link add br0 address {ROUTER_MAC} mtu {VPC_MTU} type bridge",
        f"addr add {addressing.METADATA_ADDRESS}/32 dev br0",
        f"addr add {addressing.RESOLVER_ADDRESS}/32 dev br0",
        f"addr add {addressing.TIME_ADDRESS}/32 dev br0",
        f"addr add {resolver}/32 dev br0",
        "link set br0 up",
    ]


def guest_commands(instance_id: str, mac: str, netns: str) -> list[str]:
    """Runs in the VPC's namespace: creates a pair of cards, one on the bridge, the other the guest's ens5."""
    link = addressing.guest_link_name(instance_id)
    return [
        f"link add {link} mtu {VPC_MTU} type veth peer name ens5 mtu {VPC_MTU} address {mac} netns {netns}",
        f"link set {link} master br0 up",
    ]


def container_commands(address: str, subnet_cidr: str) -> list[str]:
    """Runs in the guest's namespace: there is no operating system that would ask for an address."""
    return [
        "link set lo up",
        "link set ens5 name eth0",
        f"addr add {address}/{addressing.prefix_length(subnet_cidr)} dev eth0",
        "link set eth0 up",
        f"route add default via {addressing.gateway(subnet_cidr)}",
    ]


def ip_batch(commands: Iterable[str], netns: str | None = None) -> None:
    where = ["-n", netns] if netns else []
    run(["ip", *where, "-batch", "-"], stdin="\n".join(commands) + "\n")


def nft(rules: str, netns: str | None = None) -> None:
    where = ["nsenter", f"--net=/run/netns/{netns}"] if netns else []
    run([*where, "nft", "-f", "-"], stdin=rules)


def _make_router(netns: str, rules: str) -> None:
    def forward() -> None:
        for key in ("ip_forward", "conf/all/send_redirects:0", "conf/default/send_redirects:0"):
            name, _, value = key.partition(":")
            Path(f"/proc/sys/net/ipv4/{name}").write_text(value or "1")

    inside(netns, forward)
    nft(rules, netns=netns)


def _skip_duplicate_detection() -> None:
    """Addresses are unique here; the check for duplicates of the link-local one would cost every boot two seconds."""
    path = Path("/proc/sys/net/ipv6/conf/default/accept_dad")
    if path.exists():
        path.write_text("0")


def _routes() -> list[str]:
    routes = json.loads(run(["ip", "-j", "-4", "route"]) or "[]")
    return [str(route["dst"]) for route in routes if route["dst"] != "default"]


def _uplink_mtu() -> int:
    """The MTU of the card of the host's default route."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "default"]) or "[]")
    if not routes:
        return 1500
    return int(Path(f"/sys/class/net/{routes[0]['dev']}/mtu").read_text())
