"""A VPC as companies have it: instances of the private subnet reach AWS and the internet through a proxy alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed import WHEELS, Bed, wait_for

from localcloud import state

CIDR, PRIVATE, PUBLIC = "10.20.0.0/16", "10.20.1.0/24", "10.20.0.0/24"
PROXY_ADDRESS, PORT = "10.20.0.10", 3128
URL = f"http://{PROXY_ADDRESS}:{PORT}"
CONFIGURATION = f"""\
Port {PORT}
Listen 0.0.0.0
Timeout 600
MaxClients 200
LogFile "/var/log/tinyproxy/tinyproxy.log"
LogLevel Connect
Allow {PRIVATE}
ConnectPort 443
"""
INSTALLS = f"""\
#!/bin/bash
set -e
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y install tinyproxy
cat >/etc/tinyproxy/tinyproxy.conf <<'E'
User tinyproxy
Group tinyproxy
{CONFIGURATION}E
systemctl restart tinyproxy
systemctl is-active tinyproxy
echo "tinyproxy: $(tinyproxy -v)"
echo the-proxy-runs
"""
ASKS = f"""\
#!/bin/bash
ask() {{ curl -sS -o /dev/null -m 20 --connect-timeout 4 -w '%{{http_code}}' "$@" 2>&1 | tr '\\n' ' '; }}
echo "endpoint: ${{AWS_ENDPOINT_URL:-none}}"
echo "direct-api: $(ask https://ssm.us-east-1.amazonaws.com/)"
echo "direct-apt: $(ask http://deb.debian.org/debian/dists/trixie/InRelease)"
echo "proxied-api: $(ask -x {URL} https://ssm.us-east-1.amazonaws.com/)"
echo asked-all
"""


@dataclass(frozen=True)
class Network:
    bed: Bed
    vpc: str
    private: str
    public: str

    def launch(self, subnet: str, user_data: str, until: str, **more: Any) -> tuple[str, str]:
        """An instance of no cluster, and what it said on its console."""
        ec2 = self.bed.client("ec2")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        card = {"DeviceIndex": 0, "SubnetId": subnet, **more}
        made = ec2.run_instances(
            ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, UserData=user_data, NetworkInterfaces=[card]
        )
        instance: str = made["Instances"][0]["InstanceId"]
        return instance, wait_for(f"{until} on the console", lambda: self._console(instance, until), 120)

    def _console(self, instance: str, until: str) -> str:
        path = state.state_dir(self.bed.name) / "machines" / instance / "console.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return text if until in text else ""


class Proxy:
    """The tinyproxy of an instance in the public subnet."""

    def __init__(self, network: Network) -> None:
        self.instance, self.said = network.launch(
            network.public, INSTALLS, "the-proxy-runs", PrivateIpAddress=PROXY_ADDRESS, AssociatePublicIpAddress=True
        )
        machine = state.state_dir(network.bed.name) / "machines" / self.instance
        self._log: Path = machine / "upper/var/log/tinyproxy/tinyproxy.log"

    def targets(self) -> list[str]:
        """As the clients wrote them."""
        return re.findall(r"Request \(file descriptor \d+\): \S+ (\S+) HTTP/", self._log.read_text())

    def requests(self, since: int = 0) -> list[str]:
        """`METHOD HOST:PORT` of each. `since`: how many to leave out."""
        lines = re.findall(r"Request \(file descriptor \d+\): (\S+) (\S+) HTTP/", self._log.read_text())
        return [f"{method} {_end(target)}" for method, target in lines][since:]

    def clients(self) -> set[str]:
        return set(re.findall(r"Connect \(file descriptor \d+\): (?:\S+ \[)?([0-9.]+)", self._log.read_text()))


def _end(target: str) -> str:
    if found := re.match(r"http://([^/:]+)(?::(\d+))?", target):
        return f"{found[1]}:{found[2] or 80}"
    return target


@contextmanager
def opened(folder: Path) -> Iterator[Network]:
    """With a local cloud whose instances know AWS by AWS's names only. The private subnet has no route but the VPC's
    own, and the VPC no endpoint."""
    bed = Bed.make(folder)
    wheels = ["--wheels", str(WHEELS)] if WHEELS.is_dir() else []
    try:
        done = bed.localcloud("up", "--detach", "--port", str(bed.port), "--public-endpoints", *wheels)
        assert done.returncode == 0, done.stderr
        yield _network(bed)
    finally:
        bed.close()


def _network(bed: Bed) -> Network:
    ec2 = bed.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=CIDR)["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    private, public = (
        ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
        for cidr in (PRIVATE, PUBLIC)
    )
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=public)
    return Network(bed, vpc, private, public)
