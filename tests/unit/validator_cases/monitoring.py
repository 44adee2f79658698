from __future__ import annotations

from validator_cases.case import Case, cluster, partition

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
    "dashboard-shows-all-nodes": [
        Case(
            fails=partition(max_nodes=501),
            key="monitoring.dashboard",
            says="shows 500 of 501 nodes at most: CloudWatch draws no more lines in one plot",
            passes={**partition(max_nodes=501), "monitoring": {"dashboard": False}},
        ),
        Case(
            fails={**partition(max_nodes=500), "parameter_servers": {"max_nodes": 1}},
            key="monitoring.dashboard",
            says="shows 500 of 501 nodes at most: CloudWatch draws no more lines in one plot",
            passes=partition(max_nodes=500),
        ),
    ],
}
