from __future__ import annotations

from typing import Any

from validator_cases.case import PARTITION, Case, cluster

VPC, SUBNET = "vpc-0123456789abcdef0", "subnet-0123456789abcdef0"
BAKED = "ami-0123456789abcdef0"


def network(**keys: Any) -> dict[str, Any]:
    return cluster(network=keys)


def existing(**keys: Any) -> dict[str, Any]:
    return cluster(availability_zone="us-east-1a", network={"vpc_id": VPC, "subnet_id": SUBNET, **keys})


DOOR = {"connect_endpoint_id": "eice-0123456789abcdef0", "connect_security_group_id": "sg-0123456789abcdef0"}


def closed(**keys: Any) -> dict[str, Any]:
    """Without internet, and with an image for it."""
    return cluster(**{"software": {"image": BAKED}, "network": {"internet": "none"}, **keys})


GROUPS = [f"sg-0123456{n}" for n in range(5)]
GROUPED = {**existing(), "parameter_servers": {"security_groups": GROUPS[:4]}}

CASES = {
    "proxy-form": [
        Case(
            fails=network(proxy=wrong),
            key="network.proxy",
            says=f"must be http://host:port, got {wrong!r}",
            passes=network(proxy=right),
        )
        for wrong, right in (
            ("proxy.example.com:3128", "http://proxy.example.com:3128"),
            ("https://proxy:3128", "http://10.0.0.3:80"),
            ("http://me:secret@proxy:3128", "http://p:3128"),
        )
    ],
    "no-proxy-form": [
        Case(
            fails=network(proxy="http://p:3128", no_proxy=[wrong]),
            key="network.no_proxy[0]",
            says=f"must be a name, the end of names such as .example.com, an address or a network, got {wrong!r}",
            passes=network(proxy="http://p:3128", no_proxy=[right]),
        )
        for wrong, right in (("*.example.com", ".example.com"), ("a,b", "10.1.0.0/16"), ("a b", "fd00::1"))
    ],
    "proxy-within-reach": Case(
        fails=closed(network={"internet": "none", "proxy": "http://p:3128"}),
        key="network.proxy",
        says="with internet: none the new VPC leads to no proxy",
        passes=network(proxy="http://p:3128"),
    ),
    "no-proxy-needs-proxy": Case(
        fails=network(no_proxy=["a"]),
        key="network.no_proxy",
        says="network.proxy is missing",
        passes=network(proxy="http://p:3128", no_proxy=["a"]),
    ),
    "security-groups-form": Case(
        fails={**existing(), "head_node": {"security_groups": ["default"]}},
        key="head_node.security_groups[0]",
        says="must be a security group's id (sg-…), got 'default'",
        passes=GROUPED,
    ),
    "security-groups-need-vpc": Case(
        fails=cluster(head_node={"security_groups": GROUPS[:1]}),
        key="head_node.security_groups",
        says="a security group is in one VPC, and this cluster makes a new one",
        passes=GROUPED,
    ),
    "security-groups-count": Case(
        fails={**existing(), "partitions": [PARTITION | {"security_groups": GROUPS}]},
        key="partitions[0].security_groups",
        says="must be at most 4, got 5: with ours a network interface takes 5",
        passes=GROUPED,
    ),
    "subnet-needs-vpc": Case(
        fails=network(subnet_id=SUBNET),
        key="network.subnet_id",
        says="network.vpc_id is required too",
        passes=existing(),
    ),
    "vpc-needs-subnet": Case(
        fails=network(vpc_id=VPC),
        key="network.vpc_id",
        says="network.subnet_id is required too",
        passes=existing(),
    ),
    "subnet-needs-zone": Case(
        fails=network(vpc_id=VPC, subnet_id=SUBNET),
        key="network.subnet_id",
        says="availability_zone is required: the subnet's zone",
        passes=existing(),
    ),
    "connect-endpoint-needs-vpc": Case(
        fails=network(**DOOR),
        key="network.connect_endpoint_id",
        says="network.vpc_id is required too",
        passes=existing(**DOOR),
    ),
    "connect-endpoint-needs-group": [
        Case(
            fails=existing(**{key: DOOR[key]}),
            key=f"network.{key}",
            says=f"network.{other} is required too",
            passes=existing(**DOOR),
        )
        for key, other in zip(DOOR, reversed(DOOR), strict=True)
    ],
    "vpc-new-or-existing": Case(
        fails=existing(vpc_cidr="10.0.0.0/16"),
        key="network.vpc_cidr",
        says="is only for a new VPC, but network.vpc_id names an existing one",
        passes=existing(),
    ),
    "vpc-cidr-usable": Case(
        fails=network(vpc_cidr="169.254.0.0/16"),
        key="network.vpc_cidr",
        says="169.254.0.0/16 belongs to the link-local addresses, where instances find their metadata and DNS "
        "(169.254.0.0/16)",
        passes=network(vpc_cidr="192.168.0.0/16"),
    ),
    "vpc-cidr-not-docker": Case(
        fails=network(vpc_cidr="172.17.0.0/20"),
        key="network.vpc_cidr",
        says="172.17.0.0/20 overlaps 172.17.0.0/16, the network of Docker on nodes",
        passes=network(vpc_cidr="172.16.0.0/16"),
    ),
    "subnet-holds-nodes": [
        Case(
            fails=cluster(network={"vpc_cidr": "10.0.0.0/24"}, partitions=[{**PARTITION, "max_nodes": 116}]),
            key="network.vpc_cidr",
            says="10.0.0.0/24 has room for 115 nodes in its private half; partitions have 116",
            passes=cluster(network={"vpc_cidr": "10.0.0.0/24"}, partitions=[{**PARTITION, "max_nodes": 115}]),
        ),
        Case(
            fails=closed(network={"vpc_cidr": "10.0.0.0/27", "internet": "none"}),
            key="network.vpc_cidr",
            says="10.0.0.0/27 has room for 0 nodes in its private half; partitions have 8",
            passes=cluster(network={"vpc_cidr": "10.0.0.0/27"}, partitions=[{**PARTITION, "max_nodes": 3}]),
        ),
    ],
    "internet-mode": Case(
        fails=network(internet="igw"),
        key="network.internet",
        says="must be nat or none, got 'igw'",
        passes=network(internet="nat"),
    ),
    "internet-none-head-image": [
        Case(
            fails=closed(head_node={"image": "dlami-ubuntu-24.04"}),
            key="head_node.image",
            says="dlami-ubuntu-24.04 has no Slurm: the head node could not install it with network.internet: none",
            passes=closed(),
        ),
        Case(
            fails=network(internet="none"),
            key="network.internet",
            says="dlami-ubuntu-24.04 has no Slurm: the head node could not install it with network.internet: none",
            passes=network(internet="nat"),
        ),
    ],
    "internet-none-partition-image": Case(
        fails=closed(partitions=[{**PARTITION, "image": "dlami-ubuntu-24.04"}]),
        key="partitions[0].image",
        says="dlami-ubuntu-24.04 has no Slurm: its nodes could not install it with network.internet: none",
        passes=closed(partitions=[{**PARTITION, "image": "ami-0fedcba9876543210"}]),
    ),
    "internet-none-software-image": Case(
        fails=cluster(network={"internet": "none"}, head_node={"image": BAKED}),
        key="network.internet",
        says="dlami-ubuntu-24.04 has no Slurm: the nodes of train could not install it with network.internet: none",
        passes=cluster(
            network={"internet": "none"}, head_node={"image": BAKED}, partitions=[{**PARTITION, "image": BAKED}]
        ),
    ),
    "internet-none-needs-route53": Case(
        fails=closed(region="us-gov-west-1"),
        key="network.internet",
        says="with 'none' nodes in us-gov-west-1 cannot reach Route 53, which holds their names",
        passes=closed(region="us-west-1"),
    ),
    "internet-none-environments": [
        Case(
            fails=closed(),
            key="network.internet",
            says="with 'none' nodes reach no package index, so they cannot install torch and horovod",
            passes=closed(software={"image": BAKED, "cache": "s3://bucket/environments"}),
        ),
        Case(
            fails=closed(software={"image": BAKED, "frameworks": ["torch"]}),
            key="network.internet",
            says="with 'none' nodes reach no package index, so they cannot install torch",
            passes=closed(software={"image": BAKED, "frameworks": []}),
        ),
        Case(
            fails=closed(),
            key="network.internet",
            says="with 'none' nodes reach no package index, so they cannot install torch and horovod",
            passes=network(internet="nat"),
        ),
    ],
    "ssh-from-count": Case(
        fails=network(ssh_from=[f"93.184.{n}.0/24" for n in range(61)]),
        key="network.ssh_from",
        says="has 61 networks; a security group holds 60 rules",
        passes=network(ssh_from=[f"93.184.{n}.0/24" for n in range(60)]),
    ),
    "ssh-from-unique": Case(
        fails=network(ssh_from=["93.184.216.0/24", "93.184.216.0/24"]),
        key="network.ssh_from[1]",
        says="93.184.216.0/24 is already in the list",
        passes=network(ssh_from=["93.184.216.0/24", "93.184.217.0/24"]),
    ),
    "ssh-from-not-all-together": Case(
        fails=network(ssh_from=["0.0.0.0/1", "128.0.0.0/1"]),
        key="network.ssh_from",
        says="opens SSH to half of the internet or more",
        passes=network(ssh_from=["93.184.216.0/24"]),
    ),
    "ssh-from-needs-internet": Case(
        fails=closed(network={"internet": "none", "ssh_from": ["93.184.216.0/24"]}),
        key="network.ssh_from",
        says="needs an internet gateway, but internet: none creates none",
        passes=network(ssh_from=["93.184.216.0/24"]),
    ),
    "ssh-from-needs-new-vpc": Case(
        fails=existing(ssh_from=["93.184.216.0/24"]),
        key="network.ssh_from",
        says="needs a public subnet, but of an existing VPC only the nodes' private subnet is known",
        passes=network(ssh_from=["93.184.216.0/24"]),
    ),
}
