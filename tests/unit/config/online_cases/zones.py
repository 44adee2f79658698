from __future__ import annotations

from validator_cases.case import cluster, partition

from online_cases.case import Answers, Online


def zones(*letters: str) -> Answers:
    return {"AvailabilityZones": [{"ZoneName": f"us-east-1{letter}", "State": "available"} for letter in letters]}


def offers(zone: str, *instance_types: str) -> Answers:
    offered = [{"InstanceType": name, "Location": zone} for name in instance_types]
    return {"ec2 describe_instance_type_offerings": {"InstanceTypeOfferings": offered}}


CASES: dict[str, Online | list[Online]] = {
    "zone-exists": Online(
        cluster(availability_zone="us-east-1c"),
        key="availability_zone",
        says="the account has no us-east-1c",
        fails={},
        passes={"ec2 describe_availability_zones": zones("a", "b", "c")},
    ),
    "zone-offers-nodes": [
        Online(
            cluster(),
            key="partitions[0].instance_types",
            says="us-east-1a does not offer p4d.24xlarge",
            fails=offers("us-east-1a", "m6i.2xlarge"),
            passes=offers("us-east-1a", "m6i.2xlarge", "p4d.24xlarge"),
        ),
        Online(
            cluster(availability_zone="us-east-1b"),
            key="head_node.instance_type",
            says="us-east-1b does not offer m6i.2xlarge",
            fails=offers("us-east-1b", "p4d.24xlarge"),
            passes=offers("us-east-1b", "m6i.2xlarge", "p4d.24xlarge"),
        ),
        Online(
            cluster(parameter_servers={}),
            key="parameter_servers.instance_type",
            says="us-east-1a does not offer m4.16xlarge",
            fails=offers("us-east-1a", "m6i.2xlarge", "p4d.24xlarge"),
            passes=offers("us-east-1a", "m6i.2xlarge", "p4d.24xlarge", "m4.16xlarge"),
        ),
    ],
    "zone-offers-every-type": Online(
        partition(instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
        key="partitions[0].instance_types[1]",
        says="us-east-1a does not offer p4de.24xlarge",
        fails=offers("us-east-1a", "p4d.24xlarge"),
        passes=offers("us-east-1a", "p4d.24xlarge", "p4de.24xlarge"),
    ),
}
