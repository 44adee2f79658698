"""Rules about `budget`. The nodes' prices are on-demand list prices; a Capacity Block is paid in advance."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import Budget, ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.regions import WITHOUT_BUDGETS
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware import prices

validator = Validators("Budget")

BUDGETS = "https://docs.aws.amazon.com/cost-management/latest/userguide"


@validator("budget-one-hour", f"{BUDGETS}/budgets-managing-costs.html: a budget is compared with what was spent")
def one_hour(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """A month's budget is more than all nodes cost in one hour, without those of Capacity Blocks."""
    hour = _usd_per_hour(config, "max")
    if budget.monthly_usd < hour:
        yield Finding(
            (*path, "monthly_usd"),
            f"{budget.monthly_usd:g} USD is less than one hour of all nodes costs: {hour:.2f} USD ({_prices(config)})",
            "raise it, or lower max_nodes",
        )


@validator(
    "budget-stop-has-email",
    "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_CreateBudgetAction.html: "
    "Subscribers, 1 to 11",
)
def stop_has_email(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """at_limit other than notify needs an e-mail address: a budget's action needs a subscriber."""
    if budget.stops_launches and budget.email is None:
        yield Finding(
            (*path, "at_limit"), f"{budget.at_limit!r} needs budget.email", "AWS writes there when it stops launches"
        )


@validator(
    "budget-has-email",
    "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_CreateBudget.html: "
    "NotificationsWithSubscribers",
    level="warning",
)
def has_email(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """A budget with at_limit: notify has an e-mail address."""
    if budget.at_limit == "notify" and budget.email is None:
        yield Finding(path, "notifies nobody: it only appears in the billing console", "set budget.email", at="key")


@validator("budget-region", "AWS::Budgets::Budget: CloudFormation's specification of the region")
def region(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """CloudFormation can create a budget in the cluster's region."""
    if config.region in WITHOUT_BUDGETS:
        yield Finding(
            path,
            f"CloudFormation has no AWS::Budgets::Budget in {config.region}",
            "remove `budget`, and create one in the billing console, filtered by the tag gpucluster:cluster",
            at="key",
        )


@validator("partition-ceiling-allows-nodes", "https://aws.amazon.com/ec2/pricing/on-demand/")
def ceiling_allows_nodes(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """max_usd_per_hour pays for min_nodes, and for at least one node, of the partition's most expensive type."""
    highest = max((prices.usd(each, config.region) or 0.0 for each in partition.instance_types), default=0.0)
    least = max(1, partition.min_nodes)
    if partition.max_usd_per_hour is not None and partition.max_usd_per_hour < least * highest:
        nodes = "one node" if least == 1 else f"{least} nodes"
        yield Finding(
            (*path, "max_usd_per_hour"),
            f"{partition.max_usd_per_hour:g} USD an hour is less than {nodes}: {least * highest:.2f} USD",
            "raise it, or lower min_nodes",
        )


@validator("partition-price-known", "https://aws.amazon.com/ec2/pricing/on-demand/", level="warning")
def price_known(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """Each type's price in the region is known if max_usd_per_hour or the budget's at_limit limits what nodes cost."""
    stops = config.budget is not None and config.budget.stops_launches
    if partition.max_usd_per_hour is None and not (stops and _costs(partition)):
        return
    for index, type_ in known_types(partition):
        name, price = type_.name, prices.of(type_.name, config.region)
        if price is None or price.region != config.region:
            counted = f"as in {price.region}, {price.usd:.2f} USD an hour" if price else "as 0 USD"
            yield Finding(
                (*path, "instance_types", index),
                f"the price of {name} in {config.region} is not known: its nodes count {counted}",
                "limit max_nodes",
            )


def _costs(partition: Partition) -> bool:
    return partition.purchase != "capacity-block"


def _usd_per_hour(config: ClusterConfig, which: str) -> float:
    """A lower bound: types of unknown price are not counted."""
    return sum(count * price for count, price in _nodes(config, which))


def _nodes(config: ClusterConfig, which: str) -> Iterator[tuple[int, float]]:
    region = config.region
    yield 1, prices.usd(config.head_node.instance_type, region) or 0.0
    for partition in filter(_costs, config.every_partition):
        count = partition.max_nodes if which == "max" else partition.min_nodes
        yield count, min(prices.usd(each, region) or 0.0 for each in partition.instance_types)


def _prices(config: ClusterConfig) -> str:
    types = [
        config.head_node.instance_type,
        *(each for one in filter(_costs, config.every_partition) for each in one.instance_types),
    ]
    return prices.where_and_when(
        config.region, {name: price for name in types if (price := prices.of(name, config.region))}
    )
