"""Checks whether the cluster's zone offers the accounting database's instance class."""

from __future__ import annotations

from gpucluster.config.checks.online.account import Account, zone
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Findings, Validators

validator = Validators("Accounting database (asks AWS)", needs="aws")
ENGINE, ENGINE_VERSION, INSTANCE_CLASS = "mariadb", "10.11", "db.t4g.small"
"""As created by stacks/accounting.py."""


@validator(
    "accounting-class-in-zone",
    "https://docs.aws.amazon.com/AmazonRDS/latest/APIReference/API_DescribeOrderableDBInstanceOptions.html; "
    "error InvalidVPCNetworkStateFault of RDS CreateDBInstance: the zone is unavailable",
)
def accounting_class_in_zone(config: ClusterConfig, account: Account) -> Findings:
    """With accounting: rds, RDS offers the database's instance class in the cluster's zone."""
    place = zone(account, config)
    if config.accounting != "rds" or not place:
        return
    offered = _offered(account)
    if place not in offered:
        yield Finding(
            ("accounting",),
            f"RDS offers no {INSTANCE_CLASS} with {ENGINE} {ENGINE_VERSION} in {place}",
            f"these zones offer it: {', '.join(sorted(offered))}" if offered else "write accounting: local",
        )


def _offered(account: Account) -> set[str]:
    """The zones that offer it."""
    answer = account.ask("rds", "describe_orderable_db_instance_options", Engine=ENGINE, DBInstanceClass=INSTANCE_CLASS)
    options = answer["OrderableDBInstanceOptions"]
    fitting = [each for each in options if each["EngineVersion"].startswith(ENGINE_VERSION)]
    return {place["Name"] for each in fitting for place in each["AvailabilityZones"]}
