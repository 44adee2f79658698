"""nftables rules: address translation for outgoing traffic, which is dropped for subnets without a route to the
internet."""

from __future__ import annotations

from localcloud.machines.networks.addressing import API_ADDRESS, CREDENTIALS_ADDRESS


def host_table(cloud_id: str) -> str:
    return f"localcloud_{cloud_id}"


def host_rules(cloud_id: str, cloud_address: str, uplink: str) -> str:
    return f"""\
table ip {host_table(cloud_id)} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {cloud_address} oifname != "{uplink}" masquerade
  }}
}}
"""


def hub_rules() -> str:
    return """\
table ip localcloud {
  chain postrouting {
    type nat hook postrouting priority srcnat;
    oifname "uplink" masquerade
  }
}
"""


def vpc_rules() -> str:
    """For a VPC's namespace: only subnets in the set `internet` may leave it; all reach the API.

    Segments are clamped to the uplink's MTU: guests offer jumbo frames, which no host outside accepts.
    """
    return f"""\
table ip localcloud {{
  set internet {{ type ipv4_addr; flags interval; }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    oifname "uplink" masquerade
  }}
  chain forward {{
    type filter hook forward priority filter;
    oifname "uplink" tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
    iifname "uplink" accept
    oifname "uplink" ip daddr {API_ADDRESS} accept
    oifname "uplink" ip daddr {CREDENTIALS_ADDRESS} accept
    oifname "uplink" ip saddr @internet accept
    oifname "uplink" drop
  }}
}}
"""


def allow_internet(subnet_cidr: str) -> str:
    return f"add element ip localcloud internet {{ {subnet_cidr} }}\n"


def deny_internet(subnet_cidr: str) -> str:
    """Deleting a missing element of a set is an error, so it is added first."""
    return f"{allow_internet(subnet_cidr)}delete element ip localcloud internet {{ {subnet_cidr} }}\n"
