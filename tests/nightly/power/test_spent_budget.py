"""The month's budget is spent, and the cluster file says `at_limit: stop-nodes`: the job gets its signal and goes back
to the queue, its nodes end, and it runs again when the limit is raised."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from bed import Bed, wait_for
from beds import opened
from test_changes import rewrite

from tests.nightly.power.signalled import Signalled

SUBJECTS = [
    "bootstrap/gpucluster_node/ends.py",
    "bootstrap/gpucluster_node/power/limits.py",
    "bootstrap/gpucluster_node/power/budget_stop.py",
    "bootstrap/gpucluster_node/power/reconcile.py",
    "bootstrap/gpucluster_node/power/spending.py",
    "gpucluster/head/spending.py",
    "gpucluster/updates/rules.py",
    "stacks/budget.py",
]
COVERED_BY = (
    "test_budgets.py, test_update_table.py, test_node_budget_stop.py, test_node_spending.py, test_head_spending.py"
)
LIMIT_USD, USD_PER_HOUR = 50.0, 5.672
"""The price of the cluster's g5.12xlarge."""
SPENT = "the budget of 50 USD a month is reached"
FILE = "/home/gpucluster/spending.json"


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    bed = Bed.make(tmp_path_factory.mktemp("poor"))
    budget = f"budget: {{monthly_usd: {LIMIT_USD}, email: me@example.com, at_limit: stop-nodes}}\n"
    bed.config.write_text(bed.config.read_text().rstrip() + "\n\n" + budget)
    with opened(bed):
        bed.up()
        yield bed


def spend(bed: Bed, usd: float) -> None:
    """As if other nodes had run since the first of the month."""
    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    count = math.ceil(usd / USD_PER_HOUR / ((now - begin).total_seconds() / 3600))
    found = json.loads(bed.ssh("cat", FILE))
    found["instances"] |= {f"i-{n}": ["g5.12xlarge", begin.isoformat(), now.isoformat()] for n in range(count)}
    write = f"import os; open('{FILE}.new', 'w').write({json.dumps(found)!r}); os.replace('{FILE}.new', '{FILE}')"
    bed.ssh("sudo", "python3", "-c", write)


def test_a_job_waits_with_its_checkpoint_until_the_limit_is_raised(poor: Bed) -> None:
    job = Signalled.submitted(poor)
    job.wait_until_started(1, 300)
    wait_for("the count", lambda: "usd" in poor.ssh("sh", "-c", f"cat {FILE} 2>/dev/null || true"), 120)
    spend(poor, 2 * LIMIT_USD)
    wait_for("the end of all nodes", lambda: not poor.instances("compute"), 300)
    assert job.checkpoints() == 2
    assert f" was lost: {SPENT}: it is terminated at " in job.text()
    wait_for("the cause", lambda: f"yet: {SPENT}" in poor.gpucluster("why", job.job_id).stdout, 180)
    status = poor.gpucluster("status").stdout
    assert "warning: the budget is reached, no node is launched, and running nodes are terminated" in status
    assert not poor.instances("compute")

    rewrite(poor, f"monthly_usd: {LIMIT_USD}", "monthly_usd: 90000")
    poor.up()
    job.wait_until_started(2, 300)
    poor.gpucluster("cancel", job.job_id)
