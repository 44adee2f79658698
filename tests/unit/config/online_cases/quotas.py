from __future__ import annotations

from validator_cases.case import cluster, partition, storage

from online_cases.case import Answers, Online, deployed, quota

ADDRESSES: Answers = {"ec2 describe_addresses": {"Addresses": [{"PublicIp": "192.0.2.1"}]}}
VPCS: Answers = {"ec2 describe_vpcs": {"Vpcs": [{"VpcId": "vpc-1"}]}}
GATEWAYS: Answers = {
    "ec2 describe_subnets": {"Subnets": [{"SubnetId": "subnet-1", "AvailabilityZone": "us-east-1a"}]},
    "ec2 describe_nat_gateways": {
        "NatGateways": [
            {"NatGatewayId": "nat-1", "SubnetId": "subnet-1", "State": "available"},
            {"NatGatewayId": "nat-2", "SubnetId": "subnet-1", "State": "deleted"},
        ]
    },
}
IN_ANOTHER_ZONE: Answers = {
    "ec2 describe_subnets": {"Subnets": [{"SubnetId": "subnet-1", "AvailabilityZone": "us-east-1b"}]}
}


def counted(value: float) -> Answers:
    """The UsageMetric of L-417A185B, as in the AWS CLI's examples of get-service-quota for L-1216C47A."""
    metric = {
        "MetricNamespace": "AWS/Usage",
        "MetricName": "ResourceCount",
        "MetricDimensions": {"Class": "P/OnDemand", "Resource": "vCPU", "Service": "EC2", "Type": "Resource"},
        "MetricStatisticRecommendation": "Maximum",
    }
    return {"service-quotas get_service_quota": {"Quota": {"Value": value, "UsageMetric": metric}}}


def used(*vcpus: float) -> Answers:
    return {"cloudwatch get_metric_statistics": {"Datapoints": [{"Maximum": each} for each in vcpus]}}


CASES: dict[str, Online | list[Online]] = {
    "quota-vcpus": [
        Online(
            partition(min_nodes=2),
            key="partitions[0].max_nodes",
            says="p4d on demand: at least 192 vCPUs are needed, but the quota is 100",
            fails=quota(100),
            passes=quota(192),
        ),
        Online(
            partition(instance_types=["g5.12xlarge"], purchase="spot"),
            key="partitions[0].max_nodes",
            says="g5 spot: at least 48 vCPUs are needed, but the quota is 40",
            fails=quota(40),
            passes=quota(48),
        ),
    ],
    "quota-vcpus-for-all": [
        Online(
            cluster(),
            key="partitions[0].max_nodes",
            says="p4d on demand: with max_nodes 768 vCPUs are needed, but the quota is 100",
            fails=quota(100),
            passes=quota(768),
        ),
        Online(
            partition(instance_types=["g5.12xlarge"], purchase="spot"),
            key="partitions[0].max_nodes",
            says="g5 spot: with max_nodes 384 vCPUs are needed, but the quota is 48",
            fails=quota(48),
            passes=quota(384),
        ),
    ],
    "quota-vcpus-left": [
        Online(
            partition(min_nodes=2),
            key="partitions[0].max_nodes",
            says="at least 192 vCPUs are needed, but other instances use 96 of the quota of 256",
            fails={**counted(256), **used(24, 96, 48)},
            passes=passes,
        )
        for passes in (
            {**counted(256), **used(64)},
            {**counted(256), **used()},
            {**counted(100), **used(90)},
            quota(256),
            {**counted(256), **used(96), **deployed("GpuCluster")},
        )
    ],
    "quota-disks": Online(
        partition(max_nodes=1000),
        key="partitions",
        says="the disks of all nodes take 98 TiB of gp3, but the quota is 50",
        fails=quota(50),
        passes=quota(100),
    ),
    "quota-elastic-addresses": [
        Online(
            cluster(),
            key="network",
            says="the account already has 1 Elastic IP addresses, and the quota is 1",
            fails={**ADDRESSES, **quota(1)},
            passes={**ADDRESSES, **quota(2)},
        ),
        Online(
            cluster(),
            key="network",
            says="the account already has 1 Elastic IP addresses, and the quota is 1",
            fails={**ADDRESSES, **quota(1)},
            passes={**ADDRESSES, **quota(1), **deployed("GpuCluster")},
        ),
    ],
    "quota-vpcs": Online(
        cluster(),
        key="network",
        says="the account already has 1 VPCs, and the quota is 1",
        fails={**VPCS, **quota(1)},
        passes={**VPCS, **quota(2)},
    ),
    "quota-nat-gateways": [
        Online(
            cluster(),
            key="network",
            says="the account already has 1 NAT gateways in this zone, and the quota is 1",
            fails={**GATEWAYS, **quota(1)},
            passes={**GATEWAYS, **quota(2)},
        ),
        Online(
            cluster(availability_zone="us-east-1a"),
            key="network",
            says="the account already has 1 NAT gateways in this zone, and the quota is 1",
            fails={**GATEWAYS, **quota(1)},
            passes={**GATEWAYS, **quota(1), **IN_ANOTHER_ZONE},
        ),
    ],
    "quota-fsx-storage": Online(
        storage("fsx-lustre", capacity_gib=4800),
        key="storage[0].capacity_gib",
        says="the quota is 2400 GiB of persistent-2 in total, got 4800",
        fails=quota(2400),
        passes=quota(4800),
    ),
}
