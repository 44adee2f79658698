"""Checks whether a budget can count the cluster's costs."""

from __future__ import annotations

from gpucluster.config.checks.online.account import Account, Refused
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


@validator(
    "budgets-open",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/getting-started-account-iam.html: access to Billing is off at "
    "first; https://github.com/org-formation/org-formation-cli/pull/198: Account … is a linked account. To enable "
    "budgets for your account, ask the payer account to enable budgets first",
    level="warning",
)
def budgets_open(budget: Budget, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The account may use AWS Budgets: where it may not, the whole stack is rolled back.

    A refusal has the same code if only the caller lacks the permission, so it is not an error.
    """
    mine = account.ask("sts", "get_caller_identity")["Account"]
    try:
        account.ask("budgets", "describe_budgets", AccountId=mine)
    except Refused as refusal:
        refusal.hint = (
            "`up` may fail: the account's root user turns IAM access to Billing on, and in an organization the payer "
            "enables budgets; or leave budget out. If only you lack budgets:ViewBudget, it does not matter"
        )
        raise
    yield from ()
