"""Checks whether a budget can count the cluster's costs."""

from __future__ import annotations

from gpucluster.config.checks.online.account import Account
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import Budget, ClusterConfig
from gpucluster.config.validators import Findings, Validators

validator = Validators("Costs (asks AWS)", needs="aws")
TAG = "gpucluster:cluster"


@validator(
    "budget-tag-active",
    "https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html",
    level="warning",
)
def budget_tag_active(budget: Budget, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The payer has activated the cost allocation tag gpucluster:cluster: without it a budget counts nothing."""
    found = account.ask("ce", "list_cost_allocation_tags", TagKeys=[TAG], Status="Active")["CostAllocationTags"]
    if not any(each["TagKey"] == TAG for each in found):
        yield Finding(
            path,
            f"counts nothing yet: {TAG} is not an active cost allocation tag",
            f"after the first node was tagged, run: aws ce update-cost-allocation-tags-status "
            f"--cost-allocation-tags-status TagKey={TAG},Status=Active (from the payer account)",
            at="key",
        )
