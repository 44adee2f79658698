"""What the nodes have cost this month, as the head node counts it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from gpucluster.config import ClusterConfig
from gpucluster.hardware import prices
from gpucluster.head.remote import Remote

FILE = "spending.json"
"""In the cluster's state folder."""
WARN_AT = 0.8
"""As the head node's log (gpucluster_node/power/spending.py)."""

_AT_LIMIT = {
    "notify": ("", ""),
    "stop-launches": (", and no node is launched", ": launches stop when it is reached"),
    "stop-nodes": (
        ", no node is launched, and running nodes are terminated",
        ": when it is reached, launches stop, and running nodes are terminated",
    ),
}
"""What happens once the budget is reached, and what will happen."""


def words(remote: Remote, config: ClusterConfig) -> str:
    """Empty if nothing was counted yet. The list prices on demand, also of spot nodes and reservations."""
    done = remote.run(["cat", f"{config.state_folder}/{FILE}"])
    try:
        found = json.loads(done.stdout)
        usd, month, unpriced = float(found["usd"]), str(found["month"]), found["unpriced"]
        per_hour = {str(name): float(each) for name, each in found.get("usd_per_hour", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    limit = f" of {config.budget.monthly_usd:,.2f}" if config.budget else ""
    without = f", without {', '.join(unpriced)}, whose price is not known" if unpriced else ""
    counted = f"the nodes have cost {usd:,.2f}{limit} USD in {month}, at on-demand prices{_elsewhere(config)}{without}"
    return "; ".join([counted, *_this_month(usd, config), *_per_hour(per_hour, config)])


def _this_month(usd: float, config: ClusterConfig) -> Iterator[str]:
    if not config.budget or usd < WARN_AT * config.budget.monthly_usd:
        return
    limit = config.budget.monthly_usd
    reached, then = _AT_LIMIT[config.budget.at_limit]
    if usd >= limit:
        yield f"warning: the budget is reached{reached}"
    else:
        yield f"warning: {usd / limit:.0%} of the budget is spent{then}"


def _per_hour(usd: Mapping[str, float], config: ClusterConfig) -> Iterator[str]:
    for each in config.every_partition:
        if limit := each.max_usd_per_hour:
            now = usd.get(each.name, 0.0)
            warning = "warning: " if now >= WARN_AT * limit else ""
            yield f"{warning}the nodes of {each.name} cost {now:,.2f} of at most {limit:,.2f} USD an hour"


def _elsewhere(config: ClusterConfig) -> str:
    """The types that count at the price of another region."""
    counted = [each for each in config.every_partition if each.purchase != "capacity-block"]
    used = {name: prices.of(name, config.region) for each in counted for name in each.instance_types}
    names = ", ".join(name for name, price in used.items() if price and price.region != config.region)
    return f", those of {prices.REFERENCE} for {names}" if names else ""
