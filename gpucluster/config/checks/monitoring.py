"""Rules about `monitoring`."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Monitoring
from gpucluster.config.validators import Findings, Validators

validator = Validators("Monitoring")

# fmt: off
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
# fmt: on
"""The values that CloudWatch Logs accepts."""


@validator(
    "monitoring-log-days",
    "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html: retentionInDays",
)
def log_days(monitoring: Monitoring, path: Path, config: ClusterConfig) -> Findings:
    """Logs are kept for a number of days that CloudWatch Logs takes."""
    if monitoring.log_days in LOG_DAYS:
        return
    near = sorted(sorted(LOG_DAYS, key=lambda days: abs(days - monitoring.log_days))[:2])
    yield Finding(
        (*path, "log_days"),
        f"must be a number of days that CloudWatch Logs takes, got {monitoring.log_days}",
        f"the nearest are {near[0]} and {near[1]}",
    )


@validator(
    "scrape-from-needs-vpc", "error InvalidGroup.NotFound of EC2 AuthorizeSecurityGroupIngress: a group of another VPC"
)
def scrape_from_needs_vpc(monitoring: Monitoring, path: Path, config: ClusterConfig) -> Findings:
    """scrape_from needs network.vpc_id: a rule names groups of its own VPC or a peer's, and a new VPC has neither."""
    if monitoring.scrape_from and not config.network.vpc_id:
        yield Finding((*path, "scrape_from"), "network.vpc_id is required too", "set it to the VPC of your Prometheus")


@validator(
    "retention-needs-prometheus",
    "https://prometheus.io/docs/prometheus/2.45/storage/: samples of a Prometheus that runs",
    level="warning",
)
def retention_needs_prometheus(monitoring: Monitoring, path: Path, config: ClusterConfig) -> Findings:
    """retention_days has no effect with prometheus: off."""
    if monitoring.prometheus == "off" and "retention_days" in monitoring.model_fields_set:
        yield Finding((*path, "retention_days"), "has no effect with prometheus: off", "remove it")
