from __future__ import annotations

from validator_cases.case import Case, Keys, cluster

EXISTING = {"vpc_id": "vpc-11111111", "subnet_id": "subnet-11111111"}
OWN = {"image": "ami-0123456789abcdef0"}


def rds(**keys: object) -> Keys:
    return cluster(accounting="rds", **keys)


CASES: dict[str, Case | list[Case]] = {
    "rds-needs-new-vpc": Case(
        fails=rds(availability_zone="us-east-1a", network=EXISTING),
        key="accounting",
        says="'rds' needs subnets in two zones, but network.vpc_id is used with one subnet",
        passes={**rds(availability_zone="us-east-1a", network=EXISTING), "accounting": "local"},
    ),
    "rds-vpc-size": Case(
        fails=rds(network={"vpc_cidr": "10.0.0.0/26"}),
        key="network.vpc_cidr",
        says="must be /25 or larger with accounting: rds, got /26",
        passes=rds(network={"vpc_cidr": "10.0.0.0/25"}),
    ),
    "rds-certificates-reachable": Case(
        fails=rds(network={"internet": "none"}),
        key="accounting",
        says="'rds' needs RDS's certificates from truststore.pki.rds.amazonaws.com, which no VPC endpoint reaches",
        passes=rds(network={"internet": "none"}, software=OWN),
    ),
    "rds-partition": Case(
        fails=rds(region="us-gov-west-1"),
        key="accounting",
        says="'rds' is not supported in aws-us-gov",
        passes=rds(region="us-west-1"),
    ),
}
