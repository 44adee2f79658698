from __future__ import annotations

from validator_cases.case import Case, cluster

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
}
