"""Makes smaller models of AWS's services, for the clients of a head node's programs (`aws`).

For a client, botocore loads the model of the whole service: EC2's takes 0.3 s of CPU time and 23 MiB, and has 700
operations, of which the programs call eleven. From an answer, botocore reads each member of each instance, and the
programs use a sixth of them. botocore looks for models in the folder of its configuration variable `data_path` first
(botocore.loaders), and takes what the folder lacks from its own. Each head node makes the models from its own botocore.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session

from gpucluster_node import files
from gpucluster_node.aws import MODELS

Model = Mapping[str, Any]
OPERATIONS = {
    "ec2": (
        "AttachVolume",
        "CreateTags",
        "DescribeCapacityReservations",
        "DescribeInstanceStatus",
        "DescribeInstanceTopology",
        "DescribeInstances",
        "DescribeVolumes",
        "DetachVolume",
        "RunInstances",
        "StopInstances",
        "TerminateInstances",
    ),
    "route53": ("ChangeResourceRecordSets", "ListResourceRecordSets"),
    "ssm": ("GetParameter", "PutParameter"),
}
"""Service -> the operations that programs call. A client has no others."""
READ = {
    "Instance": (
        "AmiLaunchIndex",
        "CapacityReservationId",
        "ClientToken",
        "InstanceId",
        "InstanceLifecycle",
        "InstanceType",
        "LaunchTime",
        "PrivateIpAddress",
        "State",
        "StateReason",
        "Tags",
    )
}
"""Shape of an answer -> the members that programs read. An answer has no others."""


def smaller(model: Model, operations: Collection[str], read: Mapping[str, Collection[str]]) -> Model:
    """A service's model with these operations, the shapes that they use, and no documentation."""
    kept = {name: each for name, each in model["operations"].items() if name in operations}
    shapes = {name: _with(shape, read[name]) if name in read else shape for name, shape in model["shapes"].items()}
    used = _used(shapes, [shape["shape"] for operation in kept.values() for shape in _of_operation(operation)])
    found: Model = _undocumented({**model, "operations": kept, "shapes": {name: shapes[name] for name in used}})
    return found


def _with(shape: Model, members: Collection[str]) -> Model:
    return {**shape, "members": {name: each for name, each in shape["members"].items() if name in members}}


def _undocumented(value: Any) -> Any:
    """A member of a shape may have this name too; then it has a mapping."""
    if isinstance(value, Mapping):
        is_text = isinstance(value.get("documentation"), str)
        return {name: _undocumented(each) for name, each in value.items() if not (is_text and name == "documentation")}
    return [_undocumented(each) for each in value] if isinstance(value, list) else value


def _of_operation(operation: Model) -> Iterator[Model]:
    yield from (operation[name] for name in ("input", "output") if name in operation)
    yield from operation.get("errors", ())


def _used(shapes: Model, names: Collection[str]) -> list[str]:
    """The named shapes and those in them."""
    used, left = dict[str, None](), list(names)
    while left:
        name = left.pop()
        if name not in used:
            used[name] = None
            left += [each["shape"] for each in _in_shape(shapes[name])]
    return sorted(used)


def _in_shape(shape: Model) -> Iterator[Model]:
    yield from shape.get("members", {}).values()
    yield from (shape[name] for name in ("member", "key", "value") if name in shape)


def make(folder: Path = MODELS) -> None:
    loader = botocore.session.get_session().get_component("data_loader")
    for service, operations in OPERATIONS.items():
        version = loader.determine_latest_version(service, "service-2")
        model = smaller(loader.load_service_model(service, "service-2", version), operations, READ)
        path = folder / service / version / "service-2.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(model)
        if not path.exists() or path.read_text() != text:
            files.put(path, text, on_disk=True)  # with a part of a model, no program could make a client


if __name__ == "__main__":
    make()
