"""What the nodes have cost this month, as the head node counts it."""

from __future__ import annotations

import json

from gpucluster.config import ClusterConfig
from gpucluster.hardware import prices
from gpucluster.head.remote import Remote


def words(remote: Remote, config: ClusterConfig) -> str:
    """Empty if nothing was counted yet. The list prices on demand, also of spot nodes and reservations."""
    done = remote.run(["cat", f"{config.state_folder}/spending.json"])
    try:
        found = json.loads(done.stdout)
        usd, month, unpriced = float(found["usd"]), str(found["month"]), found["unpriced"]
    except (ValueError, KeyError, TypeError):
        return ""
    limit = f" of {config.budget.monthly_usd:,.2f}" if config.budget else ""
    without = f", without {', '.join(unpriced)}, whose price is not known" if unpriced else ""
    return f"the nodes have cost {usd:,.2f}{limit} USD in {month}, at on-demand prices{_elsewhere(config)}{without}"


def _elsewhere(config: ClusterConfig) -> str:
    """The types that count at the price of another region."""
    counted = [each for each in config.every_partition if each.purchase != "capacity-block"]
    used = {name: prices.of(name, config.region) for each in counted for name in each.instance_types}
    names = ", ".join(name for name, price in used.items() if price and price.region != config.region)
    return f", those of {prices.REFERENCE} for {names}" if names else ""
