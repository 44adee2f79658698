"""Monitoring with CloudWatch: the names of log groups and metrics, and the CloudWatch agent's files.

Two namespaces: NAMESPACE has the head node's metrics of the whole cluster (`publish` of the node programs); the
cluster's own namespace has the metrics of each node's agent. Compute nodes may write only to the second.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from gpucluster import ports
from gpucluster.config import ClusterConfig

NAMESPACE = "GpuCluster"
INTERVAL_S = 60
NODE = "{node}"
"""Placeholder for the node's name, which the node fills in; the agent fills in `{instance_id}` and the like."""
JOB_LOGS = "/home/gpucluster/job-logs"
"""Hard links to the logs of recent jobs, named after user and job: `publish` keeps them."""
_STREAM = "{instance_id}/{local_hostname}"
_ISO = "%Y-%m-%dT%H:%M:%S"

Role = Literal["head", "compute"]

_LOGS: dict[str, dict[str, str]] = {
    "boot": {"file_path": "/var/log/gpucluster/boot.log", "timestamp_format": f"{_ISO}Z", "timezone": "UTC"},
    "power": {"file_path": "/var/log/gpucluster/power.log", "timestamp_format": f"{_ISO}%z"},
    "slurmctld": {"file_path": "/var/log/slurm/slurmctld.log", "timestamp_format": _ISO},
    "slurmdbd": {"file_path": "/var/log/slurm/slurmdbd.log", "timestamp_format": _ISO},
    "slurmd": {"file_path": "/var/log/slurm/slurmd.log", "timestamp_format": _ISO},
    "jobs": {"file_path": f"{JOB_LOGS}/*.txt"},
}
_OF_ROLE: dict[Role, tuple[str, ...]] = {
    "head": ("boot", "power", "slurmctld", "slurmdbd", "jobs"),
    "compute": ("boot", "slurmd"),
}


def node_namespace(cluster: str) -> str:
    return f"{NAMESPACE}/{cluster}"


def log_group(cluster: str, log: str) -> str:
    return f"/gpucluster/{cluster}/{log}"


def logs(config: ClusterConfig, *roles: Role) -> list[str]:
    """Short names of the logs that nodes of these roles send."""
    wanted = dict.fromkeys(log for role in roles for log in _OF_ROLE[role])
    return [log for log in wanted if log != "slurmdbd" or config.accounting != "off"]


def shippable(role: Role) -> tuple[str, ...]:
    """Every log that nodes of this role may ever send: a running node keeps its permissions until it is updated."""
    return _OF_ROLE[role]


def prometheus(config: ClusterConfig) -> dict[str, str]:
    """Values for the head node's Prometheus, which has a twentieth of the volume with /home and Slurm's state."""
    return {
        "prometheus": config.monitoring.prometheus,
        "prometheus_port": str(ports.PROMETHEUS),
        "samples_days": f"{config.monitoring.retention_days}d",
        "samples_size": f"{config.head_node.volume_gib * 1024 // 20}MB",
    }


def agent_files(config: ClusterConfig) -> dict[str, str]:
    """Path inside the bundle -> text."""
    roles: tuple[Role, ...] = ("head", "compute")
    return {f"cloudwatch/{role}.json": json.dumps(agent(config, role), indent=2) + "\n" for role in roles}


def agent(config: ClusterConfig, role: Role) -> dict[str, Any]:
    """The agent's configuration. Each node removes the sections for hardware that it lacks."""
    return {
        "agent": {
            "metrics_collection_interval": INTERVAL_S,
            "region": config.region,
            "run_as_user": "root",  # the only user whom the metadata service answers
            "omit_hostname": True,
        },
        "logs": {"logs_collected": {"files": {"collect_list": [_shipped(config, log) for log in logs(config, role)]}}},
        "metrics": {"namespace": node_namespace(config.name), **_metrics(config, role)},
    }


def _shipped(config: ClusterConfig, log: str) -> dict[str, Any]:
    # By default the agent follows only the newest of several files. With this, each file has its own stream.
    several = "*" in _LOGS[log]["file_path"]
    stream = {"log_stream_name": "job", "publish_multi_logs": True} if several else {"log_stream_name": _STREAM}
    return {**_LOGS[log], "log_group_name": log_group(config.name, log), **stream}


def _measured(*names: str, **more: Any) -> dict[str, Any]:
    return {"measurement": list(names), "append_dimensions": {"Node": NODE}, **more}


def _rolled_up(*names: str, **more: Any) -> dict[str, Any]:
    """Only the aggregate over GPUs or disks is sent: one metric for a node. The statistics Minimum and Maximum still
    show the slowest and the busiest GPU."""
    return _measured(*names, drop_original_metrics=list(names), **more)


_EFA = ("efa_tx_bytes", "efa_rx_bytes", "efa_retrans_pkts", "efa_rx_dropped")


def _metrics(config: ClusterConfig, role: Role) -> dict[str, Any]:
    return _of_head(["/", config.volume_mount]) if role == "head" else _OF_COMPUTE


def _of_head(disks: list[str]) -> dict[str, Any]:
    """Without the instance's id, so that the metrics and their alarms continue when the head node is replaced."""
    return {
        "aggregation_dimensions": [["Node", "path"]],
        "metrics_collected": {
            "cpu": _measured("usage_active", totalcpu=True),
            "mem": _measured("used_percent"),
            "disk": _rolled_up("used_percent", resources=disks),
        },
    }


_OF_COMPUTE: dict[str, Any] = {
    # EFA's metrics have no dimension of the cluster: the agent adds only the instance's id.
    "append_dimensions": {"InstanceId": "${aws:InstanceId}"},
    "aggregation_dimensions": [["Node"], ["InstanceId"]],
    "metrics_collected": {
        "mem": _rolled_up("used_percent"),
        "disk": _rolled_up("used_percent", resources=["/"]),
        "nvidia_gpu": _rolled_up("utilization_gpu", "memory_used", "temperature_gpu", "power_draw"),
        "efa": {"measurement": list(_EFA), "drop_original_metrics": list(_EFA)},
    },
}
