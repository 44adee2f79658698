"""Compares the account's quotas with what the file requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

from gpucluster.config.checks.online.account import Account, deployed, zone
from gpucluster.config.checks.online.images import ROOT_VOLUME_GIB
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import FsxLustre
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES

QUOTAS = "Quotas (asks AWS)"
validator = Validators(QUOTAS, needs="aws")
"""Errors under this heading are not mistakes in the file: `up` exits with the code for capacity."""

VCPUS = (
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-quotas.html; error VcpuLimitExceeded; "
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-limits.html; error MaxSpotInstanceCountExceeded"
)
VPC_PAGE = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"

# Families by the prefix of their names, up to the generation. p5 has its own spot quota; p6's is not documented.
_ON_DEMAND = (
    ("p", "L-417A185B"),
    ("g|gr|vt", "L-DB2E81BA"),
    ("[acdhimrtz]", "L-1216C47A"),
    ("x", "L-7295265B"),
    ("hpc", "L-F7808C92"),
    ("u", "L-43DA4232"),
)
_SPOT = (
    ("p[2-4]", "L-7212CCBC"),
    ("p5", "L-C4BD4855"),
    ("g|gr|vt", "L-3819A6DF"),
    ("[acdhimrtz]", "L-34B43A08"),
    ("x", "L-E3A00192"),
)

GP3_TIB = "L-7A658B76"
FSX_STORAGE_GIB = {
    "persistent-1": "L-C8640C82",
    "persistent-2": "L-8F1B9C74",
    "scratch-1": "L-AD2FC696",
    "scratch-2": "L-AD2FC696",
}


@dataclass(frozen=True)
class Nodes:
    path: Path
    instance_type: str
    spot: bool
    always: int
    most: int

    @property
    def vcpus(self) -> int:
        return INSTANCE_TYPES[self.instance_type].vcpus


@validator("quota-vcpus", VCPUS)
def quota_vcpus(config: ClusterConfig, account: Account) -> Findings:
    """The account's vCPU quotas, on demand and spot, allow min_nodes and one more node of each partition."""
    yield from _too_few(config, account, lambda nodes: max(nodes.always, 1), "at least")


@validator("quota-vcpus-for-all", VCPUS, level="warning")
def quota_vcpus_for_all(config: ClusterConfig, account: Account) -> Findings:
    """The account's vCPU quotas, on demand and spot, allow max_nodes of each partition."""
    yield from _too_few(config, account, lambda nodes: nodes.most, "with max_nodes")


@validator(
    "quota-vcpus-left",
    "https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_MetricInfo.html: UsageMetric; "
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Quotas-Visualize-Alarms.html",
    level="warning",
)
def quota_vcpus_left(config: ClusterConfig, account: Account) -> Findings:
    """What the account's other instances leave of the vCPU quotas allows min_nodes and one node of each partition."""
    if deployed(account, config):  # its own nodes are among those that run
        return
    for code, group in _by_quota(config).items():
        had, used = _quota(account, "ec2", code), _used(account, "ec2", code)
        wanted = sum(max(nodes.always, 1) * nodes.vcpus for nodes in group)
        if wanted <= had < wanted + used:
            largest = max(group, key=lambda nodes: max(nodes.always, 1) * nodes.vcpus)
            yield Finding(
                largest.path,
                f"at least {wanted} vCPUs are needed, but other instances use {used:g} of the quota of {had:g}",
                _ask_for("ec2", code, wanted + used),
            )


@validator(
    "quota-disks",
    "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html: Storage for gp3 volumes",
    level="warning",
)
def quota_disks(config: ClusterConfig, account: Account) -> Findings:
    """The account's quota on gp3 volumes is large enough for the disks of all nodes."""
    head, nodes = config.head_node, config.every_partition
    disks = [(1, head.root_volume), *((each.max_nodes, each.root_volume) for each in nodes)]
    gib = head.volume_gib + sum(count * (root.gib or ROOT_VOLUME_GIB) for count, root in disks)
    had = _quota(account, "ebs", GP3_TIB)
    if gib / 1024 > had:
        yield Finding(
            ("partitions",),
            f"the disks of all nodes take {gib / 1024:.0f} TiB of gp3, but the quota is {had:g}",
            _ask_for("ebs", GP3_TIB, gib / 1024),
        )


@validator("quota-elastic-addresses", f"{VPC_PAGE}: Elastic IP")
def quota_elastic_addresses(config: ClusterConfig, account: Account) -> Findings:
    """The account has an Elastic IP address left for a new VPC's NAT gateway."""
    if _makes_nat(config, account):
        taken = len(account.ask("ec2", "describe_addresses")["Addresses"])
        yield from _full(account, "ec2", "L-0263D0A3", taken, "Elastic IP addresses", ("network",))


@validator("quota-vpcs", f"{VPC_PAGE}: VPCs per Region")
def quota_vpcs(config: ClusterConfig, account: Account) -> Findings:
    """The account can have one more VPC, if the cluster needs a new one."""
    if config.network.vpc_id is None and not deployed(account, config):
        taken = len(account.ask("ec2", "describe_vpcs")["Vpcs"])
        yield from _full(account, "vpc", "L-F678F1CE", taken, "VPCs", ("network",))


@validator("quota-nat-gateways", f"{VPC_PAGE}: NAT gateways")
def quota_nat_gateways(config: ClusterConfig, account: Account) -> Findings:
    """The zone has room for the NAT gateway of a new VPC."""
    if _makes_nat(config, account):
        subnets = account.ask("ec2", "describe_subnets")["Subnets"]
        here = {subnet["SubnetId"] for subnet in subnets if subnet["AvailabilityZone"] == zone(account, config)}
        gateways = account.ask("ec2", "describe_nat_gateways")["NatGateways"]
        taken = sum(each["SubnetId"] in here and each["State"] in ("pending", "available") for each in gateways)
        yield from _full(account, "vpc", "L-FE5A380F", taken, "NAT gateways in this zone", ("network",))


@validator(
    "quota-fsx-storage",
    "https://docs.aws.amazon.com/fsx/latest/LustreGuide/limits.html; error ServiceLimitExceeded of FSx",
)
def quota_fsx_storage(storage: FsxLustre, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The account's quota on FSx for Lustre is large enough for a file system's capacity."""
    code = FSX_STORAGE_GIB[storage.deployment]
    had = _quota(account, "fsx", code)
    if storage.capacity_gib > had:
        yield Finding(
            (*path, "capacity_gib"),
            f"the quota is {had:g} GiB of {storage.deployment} in total, got {storage.capacity_gib}",
            _ask_for("fsx", code, storage.capacity_gib),
        )


def _too_few(config: ClusterConfig, account: Account, needed: Callable[[Nodes], int], what: str) -> Findings:
    for code, group in _by_quota(config).items():
        had, wanted = _quota(account, "ec2", code), sum(needed(nodes) * nodes.vcpus for nodes in group)
        if wanted > had:
            largest = max(group, key=lambda nodes: needed(nodes) * nodes.vcpus)
            families = ", ".join(dict.fromkeys(nodes.instance_type.partition(".")[0] for nodes in group))
            market = "spot" if largest.spot else "on demand"
            yield Finding(
                largest.path,
                f"{families} {market}: {what} {wanted} vCPUs are needed, but the quota is {had:g}",
                _ask_for("ec2", code, wanted),
            )


def _by_quota(config: ClusterConfig) -> dict[str, list[Nodes]]:
    """Spot instances count against separate quotas."""
    found: dict[str, list[Nodes]] = {}
    for nodes in _all_nodes(config):
        if code := quota_code(nodes.instance_type, spot=nodes.spot):
            found.setdefault(code, []).append(nodes)
    return found


def quota_code(instance_type: str, *, spot: bool) -> str | None:
    """None if the type's quota is not documented."""
    family = re.match(r"([a-z]+)-?(\d)", instance_type)
    if not family:
        return None
    names = (family[1], family[1] + family[2])
    return next((code for pattern, code in (_SPOT if spot else _ON_DEMAND) if _matches(pattern, names)), None)


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for name in names)


def _all_nodes(config: ClusterConfig) -> Iterator[Nodes]:
    """By the type that is tried first. A reservation already counts its vCPUs; a Capacity Block counts nowhere."""
    yield Nodes(("head_node", "instance_type"), config.head_node.instance_type, False, 1, 1)
    for path, partition in config.partitions_by_path():
        if partition.purchase in ("on-demand", "spot"):
            spot, place = partition.purchase == "spot", (*path, "max_nodes")
            yield Nodes(place, partition.instance_types[0], spot, partition.min_nodes, partition.max_nodes)


def _makes_nat(config: ClusterConfig, account: Account) -> bool:
    new = config.network.vpc_id is None and config.network.internet == "nat"
    return new and not deployed(account, config)


def _full(account: Account, service: str, code: str, taken: int, what: str, path: Path) -> Iterator[Finding]:
    had = _quota(account, service, code)
    if taken >= had:
        yield Finding(
            path,
            f"the account already has {taken} {what}, and the quota is {had:g}",
            _ask_for(service, code, taken + 1),
            at="key",
        )


def _quota(account: Account, service: str, code: str) -> float:
    answer = account.ask("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    return float(answer["Quota"]["Value"])


def _used(account: Account, service: str, code: str) -> float:
    """The most of a quota that was in use in the last hour. 0 if AWS does not count it."""
    answer = account.ask("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    metric = answer["Quota"].get("UsageMetric")
    if not metric:
        return 0.0
    now, statistic = datetime.now(UTC), metric.get("MetricStatisticRecommendation", "Maximum")
    asked = {
        "Namespace": metric["MetricNamespace"],
        "MetricName": metric["MetricName"],
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.get("MetricDimensions", {}).items()],
        "StartTime": (now - timedelta(hours=1)).isoformat(timespec="seconds"),
        "EndTime": now.isoformat(timespec="seconds"),
        "Period": 300,
        "Statistics": [statistic],
    }
    points = account.ask("cloudwatch", "get_metric_statistics", **asked)["Datapoints"]
    return max((float(point[statistic]) for point in points), default=0.0)


def _ask_for(service: str, code: str, value: float) -> str:
    return (
        "aws service-quotas request-service-quota-increase "
        f"--service-code {service} --quota-code {code} --desired-value {ceil(value)}"
    )
