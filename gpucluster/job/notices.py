"""`notify`: who gets a notice of a job's start, end and failure.

Slurm tells the head node (sbatch's --mail-type), and the head node tells the others: bootstrap/gpucluster_node/mail/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job.spec import EVENTS, JobSpec

E_MAIL = "email"
FILE = "notify.json"
MAIL_TYPES = "BEGIN,END,FAIL,INVALID_DEPEND"
"""For an array, Slurm tells of the whole (man sbatch.1: ARRAY_TASKS)."""


@dataclass(frozen=True)
class Target:
    name: str
    """email, or a variable of the submitter's environment with a webhook's address."""
    events: tuple[str, ...]


def targets(spec: JobSpec) -> tuple[Target, ...]:
    words = (each.partition(":") for each in spec.notify)
    return tuple(Target(name, tuple(events.split(",")) if events else EVENTS) for name, _, events in words)


def check(spec: JobSpec, config: ClusterConfig, *, foreign: bool) -> Iterator[Finding]:
    """`foreign`: GpuCluster did not build the cluster."""
    if spec.notify and foreign:
        own = "the cluster sends what its own administrator has set up"
        yield Finding(("notify",), own, "remove it; sbatch_args: [--mail-type=END,FAIL, --mail-user=…] may work there")
    elif any(each.name == E_MAIL for each in targets(spec)) and not config.monitoring.alarm_email:
        lacks = f"the cluster {config.name} has no address for e-mails"
        yield Finding(("notify",), lacks, "set monitoring.alarm_email in cluster.yaml, or name a webhook")


def content(spec: JobSpec, environment: Mapping[str, str], usd_per_hour: float | None) -> dict[str, Any]:
    """notify.json: it has the addresses of webhooks, which are secrets. Raises ValueError, which names no address."""
    found: list[dict[str, Any]] = []
    for target in targets(spec):
        if target.name == E_MAIL:
            found.append({"email": True, "events": target.events})
            continue
        url = environment.get(target.name, "")
        if not url:
            raise ValueError(f"{target.name} is not set in your environment")
        if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
            raise ValueError(f"{target.name} has no address that begins with https://")
        found.append({"name": target.name, "url": url, "events": target.events})
    return {"name": spec.name, "usd_per_hour": usd_per_hour, "targets": found}
