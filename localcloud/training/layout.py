"""/opt/ml of one host: its folders and the three files in which SageMaker describes the job. Pure but for `make`.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html; the names are
those that sagemaker-training 5.1.4 reads (environment.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from localcloud.training.data import Channel
from localcloud.training.jobs import Job

ML = "/opt/ml"
INTERFACE = "eth0"
CHECKPOINTS, TENSORBOARD = f"{ML}/checkpoints", f"{ML}/output/tensorboard"
API = "http://169.254.169.251"
_GROUP = "homogeneousCluster"


@dataclass(frozen=True)
class Place:
    """The folders of one host, on this machine."""

    ml: Path
    others: Path
    """For folders that the job wants outside of /opt/ml."""

    def of(self, path: str) -> Path:
        """Where a folder of the container lies."""
        if path == ML or path.startswith(f"{ML}/"):
            return self.ml / path[len(ML) + 1 :]
        return self.others / path.strip("/").replace("/", "%")

    def data(self, channel: str) -> Path:
        return self.ml / "input/data" / channel


def local_path(request: Mapping[str, Any], member: str, usual: str) -> str:
    """LocalPath of CheckpointConfig or TensorBoardOutputConfig; "" if the request has none."""
    given = request.get(member)
    return str(PurePosixPath(given.get("LocalPath") or usual)) if given else ""


def own_folders(request: Mapping[str, Any]) -> list[str]:
    """Checkpoints and TensorBoard's, in the container."""
    wanted = (("CheckpointConfig", CHECKPOINTS), ("TensorBoardOutputConfig", TENSORBOARD))
    return [path for member, usual in wanted if (path := local_path(request, member, usual))]


def make(place: Place, job: Job, channels: Sequence[Channel], host: str) -> None:
    for folder in ("input/config", "input/data", "model", "output/data"):
        (place.ml / folder).mkdir(parents=True, exist_ok=True)
    for path in own_folders(job.request):
        place.of(path).mkdir(parents=True, exist_ok=True)
    for name, content in files(job, channels, host).items():
        (place.ml / "input/config" / name).write_text(json.dumps(content))


def files(job: Job, channels: Sequence[Channel], host: str) -> dict[str, Any]:
    return {
        "hyperparameters.json": dict(job.request.get("HyperParameters") or {}),
        "inputdataconfig.json": {channel.name: _shown(channel) for channel in channels},
        "resourceconfig.json": {
            "current_host": host,
            "current_instance_type": job.instance_type,
            "current_group_name": _GROUP,
            "hosts": job.hosts,
            "instance_groups": [
                {"instance_group_name": _GROUP, "instance_type": job.instance_type, "hosts": job.hosts}
            ],
            "network_interface_name": INTERFACE,
        },
    }


def _shown(channel: Channel) -> dict[str, str]:
    """FastFile appears as File."""
    shown = {
        "TrainingInputMode": "Pipe" if channel.mode == "Pipe" else "File",
        "S3DistributionType": str(channel.source.get("S3DataDistributionType") or "FullyReplicated"),
        "RecordWrapperType": "RecordIO" if channel.record_io else "None",
    }
    return shown | ({"ContentType": channel.content_type} if channel.content_type else {})


def environment(job: Job, credentials_path: str) -> dict[str, str]:
    """AWS_ENDPOINT_URL is the local cloud's own: SDKs find its API by it."""
    return {
        **(job.request.get("Environment") or {}),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
        "AWS_REGION": job.region,
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": credentials_path,
        "AWS_ENDPOINT_URL": API,
    }


def command(request: Mapping[str, Any]) -> tuple[str, ...]:
    """`docker run IMAGE train`, unless the request has an entry point."""
    specification = request["AlgorithmSpecification"]
    entry, arguments = specification.get("ContainerEntrypoint") or (), specification.get("ContainerArguments") or ()
    return (*(entry or ("train",)), *arguments)


def folders(place: Place, request: Mapping[str, Any], channels: Sequence[Channel]) -> dict[str, Path]:
    """Path in the container -> folder of this machine."""
    outside = [path for path in own_folders(request) if not path.startswith(f"{ML}/")]
    return {path: place.of(path) for path in (ML, *outside, *read_only(channels))}


def read_only(channels: Sequence[Channel]) -> list[str]:
    """FastFile is a read-only mount: https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html"""
    return [channel_path(channel) for channel in channels if channel.mode == "FastFile" or channel.mounted_read_only]


def channel_path(channel: Channel) -> str:
    return f"{ML}/input/data/{channel.name}"
