"""The 23 inputs, and files made from parts."""

from __future__ import annotations

from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from gpucluster.parallelcluster import Converted, Subnet, convert, read, region_of, subnets_of

FOLDER = Path(__file__).parents[2] / "data/parallelcluster"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
VPC = "vpc-0123456789abcdef0"


def converted(
    text: str, *, region: str | None = "us-east-1", credentials: bool = True, file: str = "x.yaml"
) -> Converted:
    """`credentials`: whether AWS could be asked about the file's subnets."""
    data = read(text, file)
    where = region_of(data, region, file)
    subnets = {each: Subnet(VPC, f"{where}b") for each in subnets_of(data)} if credentials else {}
    return convert(data, file, where, subnets)


@cache
def of(name: str, **how: Any) -> Converted:
    return converted((FOLDER / f"{name}.yaml").read_text(), file=f"{name}.yaml", **how)


def small(**sections: Any) -> str:
    """A file with one queue, and other keys: `HeadNode__Ssh={…}` goes into HeadNode, `queue__X` and `resource__X` into
    the queue and its compute resource."""
    resource: dict[str, Any] = {"Name": "nodes", "InstanceType": "g5.xlarge", "MinCount": 0, "MaxCount": 4}
    queue: dict[str, Any] = {
        "Name": "train",
        "ComputeResources": [resource],
        "Networking": {"SubnetIds": ["subnet-01234567"]},
    }
    data: dict[str, Any] = {
        "Region": "us-east-1",
        "Image": {"Os": "ubuntu2404"},
        "HeadNode": {"InstanceType": "m6i.large", "Networking": {"SubnetId": "subnet-01234567"}},
        "Scheduling": {"Scheduler": "slurm", "SlurmQueues": [queue]},
    }
    for key, value in sections.items():
        section, _, own = key.rpartition("__")
        place = {"": data, "queue": queue, "resource": resource}.get(section)
        place = data.setdefault(section, {}) if place is None else place
        if isinstance(value, dict) and isinstance(place.get(own), dict):
            place[own] = {**place[own], **value}
        else:
            place[own] = value
    stream = StringIO()
    YAML(typ="safe").dump(data, stream)
    return stream.getvalue()


def loaded(text: str) -> Any:
    return YAML(typ="safe").load(text)
