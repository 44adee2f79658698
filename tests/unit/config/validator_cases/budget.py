from __future__ import annotations

from validator_cases.case import Case, Keys, cluster


def budget(monthly_usd: float, **keys: object) -> Keys:
    """Of a cluster of which an hour costs 176 USD at most: 8 nodes of 22, and the head node."""
    return cluster(budget={"monthly_usd": monthly_usd, "email": "a@example.org", **keys})


CASES: dict[str, Case | list[Case]] = {
    "budget-one-hour": Case(
        fails=budget(100),
        key="budget.monthly_usd",
        says="100 USD is less than one hour of all nodes costs: 176.05 USD (on demand, us-east-1, 2026-07-20)",
        passes=budget(5000),
    ),
    "budget-stop-tells-someone": Case(
        fails=cluster(budget={"monthly_usd": 5000, "at_limit": "stop-launches"}),
        key="budget.at_limit",
        says="'stop-launches' needs budget.email",
        passes=budget(5000, at_limit="stop-launches"),
    ),
    "budget-tells-someone": Case(
        fails=cluster(budget={"monthly_usd": 5000}),
        key="budget",
        says="notifies nobody: it only appears in the billing console",
        passes=budget(5000),
    ),
    "budget-region": Case(
        fails={**budget(5000), "region": "eu-north-1"},
        key="budget",
        says="CloudFormation has no AWS::Budgets::Budget in eu-north-1",
        passes={**budget(5000), "region": "eu-west-1"},
    ),
}
