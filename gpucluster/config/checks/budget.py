"""Rules about `budget`. What nodes cost is in the instance table: on demand, of the region that its prices are of."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import Budget, ClusterConfig
from gpucluster.config.regions import WITHOUT_BUDGETS
from gpucluster.config.validators import Findings, Validators
from gpucluster.hardware.instances import INSTANCE_TYPES, PRICE_REGION, PRICES_AS_OF

validator = Validators("Budget")

BUDGETS = "https://docs.aws.amazon.com/cost-management/latest/userguide"


@validator("budget-one-hour", f"{BUDGETS}/budgets-managing-costs.html: a budget is compared with what was spent")
def one_hour(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """A month's budget is more than all nodes cost in one hour."""
    hour = _usd_per_hour(config, "max")
    if budget.monthly_usd < hour:
        yield Finding(
            (*path, "monthly_usd"),
            f"{budget.monthly_usd:g} USD is less than one hour of all nodes costs: {hour:.2f} USD {_prices()}",
            "raise it, or lower max_nodes",
        )


@validator(
    "budget-stop-tells-someone",
    "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_CreateBudgetAction.html: "
    "Subscribers, 1 to 11",
)
def stop_tells_someone(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """at_limit: stop-launches needs an e-mail address: a budget's action needs a subscriber."""
    if budget.at_limit == "stop-launches" and budget.email is None:
        yield Finding(
            (*path, "at_limit"), "'stop-launches' needs budget.email", "AWS writes there when it stops launches"
        )


@validator(
    "budget-tells-someone",
    "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_CreateBudget.html: "
    "NotificationsWithSubscribers",
    level="warning",
)
def tells_someone(budget: Budget, path: Path, config: ClusterConfig) -> Findings:
    """A budget with at_limit: tell has an e-mail address."""
    if budget.at_limit == "tell" and budget.email is None:
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


def _usd_per_hour(config: ClusterConfig, which: str) -> float:
    """Without types whose price is not known: what it says is a lower bound."""
    return sum(count * price for count, price in _nodes(config, which))


def _nodes(config: ClusterConfig, which: str) -> Iterator[tuple[int, float]]:
    yield 1, _price(config.head_node.instance_type)
    for partition in config.every_partition:
        count = partition.max_nodes if which == "max" else partition.min_nodes
        yield count, min(map(_price, partition.instance_types))


def _price(instance_type: str) -> float:
    known = INSTANCE_TYPES.get(instance_type)
    return (known.price_usd_per_hour or 0.0) if known else 0.0


def _prices() -> str:
    return f"(on demand, {PRICE_REGION}, {PRICES_AS_OF})"
