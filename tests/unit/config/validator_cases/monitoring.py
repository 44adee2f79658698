from __future__ import annotations

from validator_cases.case import Case, cluster

VPC = {"vpc_id": "vpc-01234567", "subnet_id": "subnet-01234567"}

CASES: dict[str, Case | list[Case]] = {
    "monitoring-log-days": [
        Case(
            fails=cluster(monitoring={"log_days": 100}),
            key="monitoring.log_days",
            says="must be a number of days that CloudWatch Logs takes, got 100",
            passes=cluster(monitoring={"log_days": 120}),
        ),
        Case(
            fails=cluster(monitoring={"log_days": 5000}),
            key="monitoring.log_days",
            says="must be a number of days that CloudWatch Logs takes, got 5000",
            passes=cluster(monitoring={"log_days": 3653}),
        ),
    ],
    "monitoring-prometheus": Case(
        fails=cluster(monitoring={"prometheus": "yes"}),
        key="monitoring.prometheus",
        says="must be on or off, got 'yes'",
        passes=cluster(monitoring={"prometheus": "off"}),
    ),
    "monitoring-retention-days": Case(
        fails=cluster(monitoring={"retention_days": 0}),
        key="monitoring.retention_days",
        says="must be at least 1, got 0",
        passes=cluster(monitoring={"retention_days": 90}),
    ),
    "scrape-from-form": Case(
        fails=cluster(monitoring={"scrape_from": "10.0.0.0/8"}),
        key="monitoring.scrape_from",
        says="must be a security group's id (sg-…), got '10.0.0.0/8'",
        passes=cluster(availability_zone="us-east-1a", network=VPC, monitoring={"scrape_from": "sg-01234567"}),
    ),
    "scrape-from-needs-vpc": Case(
        fails=cluster(monitoring={"scrape_from": "sg-01234567"}),
        key="monitoring.scrape_from",
        says="network.vpc_id is required too",
        passes=cluster(availability_zone="us-east-1a", network=VPC, monitoring={"scrape_from": "sg-01234567"}),
    ),
    "retention-needs-prometheus": Case(
        fails=cluster(monitoring={"prometheus": "off", "retention_days": 30}),
        key="monitoring.retention_days",
        says="has no effect with prometheus: off",
        passes=cluster(monitoring={"retention_days": 30}),
    ),
}
