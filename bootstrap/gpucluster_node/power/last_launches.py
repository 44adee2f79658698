"""Records which instance was launched for a node, and that its suspend has ended: a file for each node.

`resume` and `suspend` write it, and `reconcile` reads it. EC2 shows no address of a terminated instance: only its id
tells it from earlier instances with the same name. /run is cleared at boot; then nothing is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpucluster_node import ec2, files

FOLDER = Path("/run/gpucluster/launched")


@dataclass(frozen=True)
class Launch:
    """The last launch of a node."""

    instance: str = ""
    """The id of its instance; empty if no instance is recorded."""
    address: str = ""
    """Slurm has it too, until the node is powered off."""
    suspended: bool = False
    """Whether the node's suspend has ended since."""


def write(instances: Mapping[str, ec2.Instance]) -> None:
    """instances: by node."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for node, instance in instances.items():
        _put(node, Launch(instance.instance_id, instance.private_ip or ""))


def recorded() -> set[str]:
    """The nodes of which a launch is recorded."""
    return {path.name for path in FOLDER.glob("[!.]*")}


def forget(nodes: Iterable[str]) -> None:
    for node in nodes:
        (FOLDER / node).unlink(missing_ok=True)


def read(nodes: Iterable[str]) -> dict[str, Launch]:
    """Without the nodes of which nothing is recorded."""
    return {node: found for node in nodes if (found := _read(node))}


def after(moment: float, nodes: Iterable[str]) -> list[str]:
    """The nodes that have got an instance after this moment, in seconds since 1970, and have kept it."""
    found = read(nodes)
    return [node for node, each in found.items() if each.instance and not each.suspended and _written(node) > moment]


def suspended(before: Mapping[str, Launch | None]) -> None:
    """before: what was recorded when the suspend began. If it is late, its node may have another launch."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for node, launch in before.items():
        if _read(node) == launch:
            _put(node, replace(launch or Launch(), suspended=True))


def _read(node: str) -> Launch | None:
    with suppress(OSError, ValueError, TypeError):
        return Launch(**json.loads((FOLDER / node).read_text()))
    return None


def _written(node: str) -> float:
    with suppress(OSError):
        return (FOLDER / node).stat().st_mtime
    return 0.0


def _put(node: str, launch: Launch) -> None:
    files.put(FOLDER / node, json.dumps(asdict(launch)))
