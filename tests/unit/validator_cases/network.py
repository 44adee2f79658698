from __future__ import annotations

from validator_cases.case import PARTITION, Case, cluster

VPC, SUBNET = "vpc-0123456789abcdef0", "subnet-0123456789abcdef0"

CASES = {
    "subnet-needs-vpc": Case(
        fails=cluster(network={"subnet_id": SUBNET}),
        key="network.subnet_id",
        says="needs network.vpc_id as well",
        passes=cluster(network={"vpc_id": VPC, "subnet_id": SUBNET}),
    ),
    "vpc-new-or-existing": Case(
        fails=cluster(network={"vpc_id": VPC, "subnet_id": SUBNET, "vpc_cidr": "10.0.0.0/16"}),
        key="network.vpc_cidr",
        says="is for a new VPC, and network.vpc_id names an existing one",
        passes=cluster(network={"vpc_id": VPC, "subnet_id": SUBNET}),
    ),
    "subnet-holds-nodes": Case(
        fails=cluster(network={"vpc_cidr": "10.0.0.0/24"}, partitions=[{**PARTITION, "max_nodes": 113}]),
        key="network.vpc_cidr",
        says="10.0.0.0/24 has room for 112 nodes in its private half; partitions ask for 113",
        passes=cluster(network={"vpc_cidr": "10.0.0.0/24"}, partitions=[{**PARTITION, "max_nodes": 112}]),
    ),
}
