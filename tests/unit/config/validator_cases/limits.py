from __future__ import annotations

from typing import Any

from validator_cases.case import Case, cluster

VPC = {"vpc_id": "vpc-0123456789abcdef0", "subnet_id": "subnet-0123456789abcdef0"}


def many(count: int, *types: str, nodes: int = 1, **keys: Any) -> dict[str, Any]:
    """A cluster of as many partitions, in a VPC that exists, so that no address space is in the way."""
    partitions = [{"name": f"p{n}", "instance_types": list(types), "max_nodes": nodes} for n in range(count)]
    return cluster(partitions=partitions, availability_zone="us-east-1a", network=VPC, **keys)


CASES = {
    "cluster-node-count": Case(
        fails=many(50, "g5.xlarge", nodes=1311),
        key="partitions",
        says="may have 65550 nodes together; Slurm allows 65536",
        passes=many(50, "g5.xlarge", nodes=1310),
    ),
    "template-resources": Case(
        fails=many(124, "g5.xlarge"),
        key="partitions",
        says="make about 502 resources; a CloudFormation template has 500 at most",
        passes=many(123, "g5.xlarge"),
    ),
    "template-size": Case(
        fails=many(50, "p5.48xlarge", "p5e.48xlarge"),
        key="partitions",
        says="make a template of about 1365 KB; CloudFormation takes 1000",
        passes=many(50, "p5.48xlarge"),
    ),
}
