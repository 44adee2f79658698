"""Addresses, names, rules and DHCP of the local cloud's network: pure text and arithmetic."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from localcloud.machines.networks import addressing, dhcp, firewall, network


@pytest.mark.parametrize(
    ("cloud_id", "pair"),
    [
        ("0000", ("100.64.0.1", "100.64.0.2")),
        ("0001", ("100.64.0.5", "100.64.0.6")),
        ("ffff", ("100.67.255.253", "100.67.255.254")),
    ],
)
def test_each_cloud_has_its_own_uplink(cloud_id: str, pair: addressing.Pair) -> None:
    assert addressing.uplink_pair(cloud_id) == pair


def test_uplink_avoids_networks_that_the_host_routes() -> None:
    assert addressing.uplink_pair("0000", ["192.0.2.0/24", "100.64.0.0/14"]) == ("100.68.0.1", "100.68.0.2")


def test_uplink_fails_where_the_whole_space_is_routed() -> None:
    with pytest.raises(ValueError, match="every candidate"):
        addressing.uplink_pair("0000", ["100.64.0.0/10"])


def test_links_to_vpcs_lie_outside_every_uplink() -> None:
    assert addressing.vpc_pair(0) == ("100.127.0.1", "100.127.0.2")
    assert addressing.vpc_pair(64) == ("100.127.1.1", "100.127.1.2")


def test_link_names_fit_the_kernels_limit() -> None:
    assert len(addressing.guest_link_name("i-0123456789abcdef0")) <= 15
    assert len(addressing.uplink_name("abcd")) <= 15


@pytest.mark.parametrize(
    ("region", "domain"), [("us-east-1", "ec2.internal"), ("eu-west-1", "eu-west-1.compute.internal")]
)
def test_search_domain_is_the_regions(region: str, domain: str) -> None:
    assert addressing.search_domain(region) == domain


def test_gateway_and_resolver_are_where_ec2_has_them() -> None:
    assert addressing.gateway("10.0.1.0/24") == "10.0.1.1"
    assert addressing.vpc_resolver("10.0.0.0/16") == "10.0.0.2"


def test_rules_of_a_vpc_drop_traffic_without_a_route() -> None:
    rules = firewall.vpc_rules()
    last = [line.strip() for line in rules.splitlines() if "oifname" in line][-1]
    assert last == 'oifname "uplink" drop'
    assert "ip daddr 169.254.169.251 accept" in rules


def test_host_rules_carry_the_clouds_id_and_touch_only_its_address() -> None:
    rules = firewall.host_rules("ab12", "100.64.0.2", "lc-ab12-up")
    assert "table ip localcloud_ab12" in rules
    assert 'ip saddr 100.64.0.2 oifname != "lc-ab12-up" masquerade' in rules


def test_dhcp_serves_each_subnet_its_own_gateway() -> None:
    subnets = [dhcp.Subnet("subnet-b", "10.0.2.0/24"), dhcp.Subnet("subnet-a", "10.0.1.0/24")]
    lines = dhcp.configuration(subnets, "ec2.internal", Path("/state")).splitlines()
    assert lines[-4:] == [
        "dhcp-range=set:subnet-a,10.0.1.0,static,255.255.255.0,1h",
        "dhcp-option=tag:subnet-a,option:router,10.0.1.1",
        "dhcp-range=set:subnet-b,10.0.2.0,static,255.255.255.0,1h",
        "dhcp-option=tag:subnet-b,option:router,10.0.2.1",
    ]
    assert {"port=0", "dhcp-option=option:mtu,9001", "dhcp-option=option:domain-search,ec2.internal"} <= set(lines)


def test_dhcp_host_line_names_the_guest_as_ec2_does() -> None:
    assert dhcp.host_line("02:00:00:00:00:01", "10.0.1.2") == "02:00:00:00:00:01,10.0.1.2,ip-10-0-1-2,infinite\n"


def test_guests_card_is_called_as_on_ec2() -> None:
    add, up = network.guest_commands("i-0123456789abcdef0", "02:00:00:00:00:01", "lc-ab12-i-0123456789abcdef0")
    assert "peer name ens5" in add and "address 02:00:00:00:00:01" in add
    assert up == "link set v56789abcdef0 master br0 up"


def test_a_reused_address_has_no_old_lease() -> None:
    leases = "0 02:aa 10.0.1.2 ip-10-0-1-2 ff:01\n0 02:bb 10.0.1.3 ip-10-0-1-3 ff:02\n"
    assert dhcp.without_lease_of_others(leases, "02:cc", "10.0.1.2") == "0 02:bb 10.0.1.3 ip-10-0-1-3 ff:02\n"
    assert dhcp.without_lease_of_others(leases, "02:aa", "10.0.1.2") == leases
    assert dhcp.without_lease_of_others(leases, "02:cc", "10.0.1.20") == leases


class Sleeper(dhcp.DhcpServer):
    """A DHCP server whose process needs no namespace and runs until it is killed."""

    def _start(self) -> None:
        self._process = subprocess.Popen(["sleep", "300"])


def test_the_address_of_a_guest_that_ended_without_a_lease_is_reused(tmp_path: Path) -> None:
    """dnsmasq has read that guest's file, and forgets it only if it starts again."""
    server = Sleeper(tmp_path, "none", "ec2.internal", [])
    try:
        for instance_id, mac, restarts in (("i-1", "02:aa", False), ("i-1", "02:aa", False), ("i-2", "02:bb", True)):
            before = server._process
            server.add(instance_id, mac, "10.0.1.2")
            assert (server._process is not before) is restarts
            server.remove(instance_id)
    finally:
        server.close()


class Writer(Sleeper):
    """dnsmasq truncates its file of leases before it writes the leases. A program that reads the file in between finds
    it empty. When dnsmasq ends, it writes all leases."""

    leases = ""

    def _start(self) -> None:
        self.leases = (self._folder / "leases").read_text()
        (self._folder / "leases").write_text("")
        super()._start()

    def close(self) -> None:
        if self._process is not None:
            (self._folder / "leases").write_text(self.leases)
        super().close()


def test_a_lease_is_forgotten_also_while_the_server_writes_its_file(tmp_path: Path) -> None:
    """Two guests reuse addresses in a row: the first one has just restarted the server. A guest without a lease never
    reached the metadata service, and its node booted for half an hour."""
    (tmp_path / "leases").write_text("0 02:aa 10.0.1.2 * *\n0 02:bb 10.0.1.3 * *\n0 02:cc 10.0.1.4 * *\n")
    server = Writer(tmp_path, "none", "ec2.internal", [])
    try:
        server.add("i-1", "02:ee", "10.0.1.2")
        server.add("i-2", "02:ff", "10.0.1.3")
        assert server.leases == "0 02:cc 10.0.1.4 * *\n"
    finally:
        server.close()


def test_guests_that_boot_together_and_reuse_addresses_all_get_a_lease(tmp_path: Path) -> None:
    """Each guest restarts the server. Once, a thread waited forever for another thread's server."""
    leases = "".join(f"0 02:00:00:00:00:{n:02x} 10.0.1.{n} * *\n" for n in range(1, 21))
    (tmp_path / "leases").write_text(leases)
    server = Sleeper(tmp_path, "none", "ec2.internal", [])
    guests = [
        threading.Thread(target=server.add, args=(f"i-{n}", f"02:00:00:00:01:{n:02x}", f"10.0.1.{n}"), daemon=True)
        for n in range(1, 21)
    ]
    try:
        for guest in guests:
            guest.start()
        for guest in guests:
            guest.join(timeout=300)
        assert not any(guest.is_alive() for guest in guests)
        assert (tmp_path / "leases").read_text() == ""
    finally:
        server.close()
