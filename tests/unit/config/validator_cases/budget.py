from __future__ import annotations

from validator_cases.case import Case, Keys, cluster, partition

BLOCK: Keys = {"purchase": "capacity-block", "reservation_id": "cr-0123456789abcdef0", "placement_group": "none"}


def budget(monthly_usd: float, **keys: object) -> Keys:
    """A cluster with a budget, which costs at most 176 USD per hour: 8 nodes of 22 USD, and the head node."""
    return cluster(budget={"monthly_usd": monthly_usd, "email": "a@example.org", **keys})


CASES: dict[str, Case | list[Case]] = {
    "budget-one-hour": [
        Case(
            fails=budget(100),
            key="budget.monthly_usd",
            says="100 USD is less than one hour of all nodes costs: 176.05 USD (on demand in us-east-1, 2026-07-20)",
            passes=budget(5000),
        ),
        Case(  # of a Capacity Block, which is paid in advance, only the head node
            fails={**budget(0.2), **partition(**BLOCK)},
            key="budget.monthly_usd",
            says="0.2 USD is less than one hour of all nodes costs: 0.38 USD (on demand in us-east-1, 2026-07-20)",
            passes={**budget(100), **partition(**BLOCK)},
        ),
    ],
    "budget-stop-has-email": Case(
        fails=cluster(budget={"monthly_usd": 5000, "at_limit": "stop-launches"}),
        key="budget.at_limit",
        says="'stop-launches' needs budget.email",
        passes=budget(5000, at_limit="stop-launches"),
    ),
    "budget-has-email": Case(
        fails=cluster(budget={"monthly_usd": 5000}),
        key="budget",
        says="notifies nobody: it only appears in the billing console",
        passes=budget(5000),
    ),
    "partition-ceiling-above-zero": Case(
        fails=partition(max_usd_per_hour=0.0),
        key="partitions[0].max_usd_per_hour",
        says="must be greater than 0, got 0.0",
        passes=partition(max_usd_per_hour=500.0),
    ),
    "partition-ceiling-allows-nodes": Case(
        fails=partition(min_nodes=2, max_usd_per_hour=40.0),
        key="partitions[0].max_usd_per_hour",
        says="40 USD an hour is less than 2 nodes: 43.92 USD",
        passes=partition(min_nodes=2, max_usd_per_hour=44.0),
    ),
    "partition-price-known": [
        Case(
            fails=partition(instance_types=["p5e.48xlarge"], max_usd_per_hour=44.0),
            key="partitions[0].instance_types[0]",
            says="the price of p5e.48xlarge in us-east-1 is not known: its nodes count as 0 USD",
            passes=partition(instance_types=["p5e.48xlarge"]),
        ),
        Case(
            fails={**partition(instance_types=["p5.4xlarge"], max_usd_per_hour=44.0), "region": "eu-central-1"},
            key="partitions[0].instance_types[0]",
            says="the price of p5.4xlarge in eu-central-1 is not known: its nodes count as in us-east-1, "
            "6.88 USD an hour",
            passes={**partition(instance_types=["g5.xlarge"], max_usd_per_hour=44.0), "region": "eu-central-1"},
        ),
        Case(
            fails={**budget(5000, at_limit="stop-launches"), "region": "us-west-1"},
            key="partitions[0].instance_types[0]",
            says="the price of p4d.24xlarge in us-west-1 is not known: its nodes count as in us-east-1, "
            "21.96 USD an hour",
            passes={**budget(5000, at_limit="stop-launches"), **partition(**BLOCK), "region": "us-west-1"},
        ),
    ],
    "budget-region": Case(
        fails={**budget(5000), "region": "eu-north-1"},
        key="budget",
        says="CloudFormation has no AWS::Budgets::Budget in eu-north-1",
        passes={**budget(5000), "region": "eu-west-1"},
    ),
}
