from __future__ import annotations

from validator_cases.case import Case, cluster, partition

CASES = {
    "instance-type-known": Case(
        fails=partition(instance_types=["p4d.24xlrage"]),
        key="partitions[0].instance_types[0]",
        says="'p4d.24xlrage' is not a known instance type",
        passes=partition(instance_types=["p4d.24xlarge"]),
    ),
    "region-known": Case(
        fails=cluster(region="eu-north-9"),
        key="region",
        says="'eu-north-9' is not a region that GpuCluster knows",
        passes=cluster(region="eu-north-1"),
    ),
    "zone-of-region": Case(
        fails=cluster(availability_zone="us-west-2a"),
        key="availability_zone",
        says="must be an availability zone of us-east-1, such as us-east-1a, got 'us-west-2a'",
        passes=cluster(availability_zone="us-east-1-bos-1a"),
    ),
    "zone-is-no-local-zone": Case(
        fails=cluster(availability_zone="us-east-1-bos-1a"),
        key="availability_zone",
        says="us-east-1-bos-1a is a Local Zone: it may lack NAT gateways, Instance Connect Endpoints, gp3 volumes "
        "or EFA",
        passes=cluster(availability_zone="us-east-1a"),
    ),
    "zone-by-name": Case(
        fails=cluster(availability_zone="use1-az4"),
        key="availability_zone",
        says="use1-az4 is a zone's ID: the zone's name differs between accounts",
        passes=cluster(availability_zone="us-east-1a"),
    ),
}
