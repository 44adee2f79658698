"""What `status` says of the nodes' cost, from the file that the head node writes; and what `plan` says of limits."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gpucluster import config
from gpucluster.cluster import plan
from gpucluster.head import spending

TEXT = """
name: Mine
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.xlarge], max_nodes: 4, max_usd_per_hour: 3.5}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            {"usd": 1234.5, "month": "2026-11", "unpriced": []},
            "the nodes have cost 1,234.50 of 5,000.00 USD in 2026-11, at on-demand prices; "
            "the nodes of train cost 0.00 of at most 3.50 USD an hour",
        ),
        (
            {"usd": 0.0, "month": "2026-11", "unpriced": ["p5e.48xlarge"]},
            "the nodes have cost 0.00 of 5,000.00 USD in 2026-11, at on-demand prices, "
            "without p5e.48xlarge, whose price is not known; "
            "the nodes of train cost 0.00 of at most 3.50 USD an hour",
        ),
        ("", ""),
        ({"usd": 1.0}, ""),
    ],
)
def test_status_says_what_the_head_node_has_counted(text: Any, words: str) -> None:
    said = SimpleNamespace(stdout=json.dumps(text) if text else "")
    remote: Any = SimpleNamespace(run=lambda argv: said if argv[1].endswith("/gpucluster/spending.json") else None)
    cluster = config.loads(f"{TEXT}budget: {{monthly_usd: 5000.0, email: a@example.org}}\n")
    assert spending.words(remote, cluster) == words


@pytest.mark.parametrize(
    ("usd", "at_limit", "warning"),
    [
        (79.0, "stop-launches", ""),
        (80.0, "notify", "; warning: 80% of the budget is spent"),
        (93.0, "stop-launches", "; warning: 93% of the budget is spent: launches stop when it is reached"),
        (100.0, "notify", "; warning: the budget is reached"),
        (120.0, "stop-launches", "; warning: the budget is reached, and no node is launched"),
        (
            93.0,
            "stop-nodes",
            "; warning: 93% of the budget is spent: when it is reached, launches stop, and running nodes are "
            "terminated",
        ),
        (
            120.0,
            "stop-nodes",
            "; warning: the budget is reached, no node is launched, and running nodes are terminated",
        ),
    ],
)
def test_status_warns_from_four_fifths_of_the_budget_on(usd: float, at_limit: str, warning: str) -> None:
    said = json.dumps({"usd": usd, "month": "2026-11", "unpriced": []})
    remote: Any = SimpleNamespace(run=lambda argv: SimpleNamespace(stdout=said))
    budget = f"budget: {{monthly_usd: 100.0, email: a@example.org, at_limit: {at_limit}}}\n"
    cluster = config.loads(TEXT.replace(", max_usd_per_hour: 3.5", "") + budget)
    assert spending.words(remote, cluster).partition("at on-demand prices")[2] == warning


@pytest.mark.parametrize(
    ("per_hour", "words"),
    [
        ({}, "the nodes of train cost 0.00 of at most 3.50 USD an hour"),
        ({"train": 2.0, "gone": 9.0}, "the nodes of train cost 2.00 of at most 3.50 USD an hour"),
        ({"train": 3.018}, "warning: the nodes of train cost 3.02 of at most 3.50 USD an hour"),
    ],
)
def test_status_shows_what_a_partition_costs_an_hour(per_hour: dict[str, float], words: str) -> None:
    said = json.dumps({"usd": 1.0, "month": "2026-11", "unpriced": [], "usd_per_hour": per_hour})
    remote: Any = SimpleNamespace(run=lambda argv: SimpleNamespace(stdout=said))
    assert spending.words(remote, config.loads(TEXT)).split("; ")[1:] == [words]


@pytest.mark.parametrize(
    ("purchase", "suffix"),
    [("spot", ", those of us-east-1 for p5.4xlarge"), ("capacity-block, reservation_id: cr-0123456789abcdef0", "")],
)
def test_status_names_prices_of_another_region(purchase: str, suffix: str) -> None:
    """Prices of types that are counted."""
    keys = f"{{name: train, instance_types: [p5.4xlarge], max_nodes: 4, placement_group: none, purchase: {purchase}}}"
    cluster = config.loads(f"name: Mine\nregion: eu-central-1\npartitions: [{keys}]\n")
    said = json.dumps({"usd": 1.0, "month": "2026-11", "unpriced": []})
    remote: Any = SimpleNamespace(run=lambda argv: SimpleNamespace(stdout=said))
    expected = f"the nodes have cost 1.00 USD in 2026-11, at on-demand prices{suffix}"
    assert spending.words(remote, cluster) == expected


def test_the_plan_names_the_limits() -> None:
    named = [item.name for item in plan.beside_nodes(config.loads(TEXT))]
    assert "train: launches wait at $3.50 an hour" in named
