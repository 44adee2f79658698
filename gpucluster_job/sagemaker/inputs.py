"""The three files that SageMaker writes into a container before its program starts.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from gpucluster_job.settings import GaveUp

BASE = "SAGEMAKER_BASE_DIR"
"""Takes the place of /opt/ml, as in AWS's toolkit (environment.py in sagemaker-training 5.1.4)."""
OURS = "gpucluster"
"""The channel with the archive that has this library (gpucluster/sagemaker/channels.py)."""
INTERFACE = "eth0"
"""If resourceconfig.json does not name one: the toolkit's default."""


class Host(NamedTuple):
    base: Path
    hyperparameters: dict[str, Any]
    """Values that are JSON are decoded, as the toolkit does."""
    channels: dict[str, dict[str, Any]]
    resources: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.resources["current_host"])

    @property
    def hosts(self) -> list[str]:
        return list(self.resources["hosts"])

    @property
    def number(self) -> int:
        return self.hosts.index(self.name)

    @property
    def interface(self) -> str:
        return str(self.resources.get("network_interface_name", INTERFACE))

    @property
    def own_hyperparameters(self) -> dict[str, Any]:
        """Those of the user's program."""
        return {name: value for name, value in self.hyperparameters.items() if not is_toolkits(name)}


OTHERS = ("default_user_module_name", "_tuning_objective_metric")
"""The toolkit's own, beside those that begin with sagemaker_ (SAGEMAKER_HYPERPARAMETERS in its params.py)."""


def is_toolkits(name: str) -> bool:
    return name.startswith("sagemaker_") or name in OTHERS


def base() -> Path:
    return Path(os.environ.get(BASE) or "/opt/ml")


def read(folder: Path) -> Host:
    """Raises GaveUp."""
    config = folder / "input" / "config"
    resources_at = config / "resourceconfig.json"
    resources = _json(resources_at)
    hosts, name = resources.get("hosts"), resources.get("current_host")
    if not isinstance(hosts, list) or name not in hosts:
        raise GaveUp(f"{resources_at}: current_host is {name!r}, expected one of hosts, which is {hosts!r}")
    hyperparameters, channels = config / "hyperparameters.json", config / "inputdataconfig.json"
    return Host(
        folder,
        {key: _decoded(value) for key, value in _json(hyperparameters).items()},
        _data(_json(channels)) if channels.exists() else {},  # a job without channels has no such file
        resources,
    )


def _data(channels: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those of the job: programs take each of SM_CHANNELS for data."""
    return {name: channel for name, channel in channels.items() if name != OURS}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GaveUp(
            f"{path}: cannot be read: {error.strerror}; every container of a SageMaker training job has this file: "
            f"start this program there, or set {BASE} to a folder with input/config"
        ) from None
    except ValueError as error:
        raise GaveUp(f"{path}: is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise GaveUp(f"{path}: is {type(found).__name__}, expected a JSON object")
    return found


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value
