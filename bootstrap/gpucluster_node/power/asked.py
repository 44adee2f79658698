"""A call of RunInstances, as a ResumeProgram records it (`in_flight`) before EC2 gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpucluster_node import fleet


@dataclass(frozen=True)
class Call:
    """If the program is killed, another one makes the same call: EC2 then returns the instances that it has already
    launched for the token, or launches them. nodes: for the instances in the order of their launch index."""

    token: str
    template: fleet.LaunchTemplate
    least: int
    most: int
    nodes: tuple[str, ...]

    def written(self) -> dict[str, Any]:
        return asdict(self)


def read(data: Mapping[str, Any]) -> Call:
    return Call(
        data["token"], fleet.LaunchTemplate(**data["template"]), data["least"], data["most"], tuple(data["nodes"])
    )
