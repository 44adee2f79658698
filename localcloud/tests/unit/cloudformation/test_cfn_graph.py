"""Dependency order of the local CloudFormation, and work along it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localcloud.cloudformation import graph
from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.template import Template

RESOURCES: dict[str, Any] = {
    "Instance": {
        "Type": "X",
        "Properties": {"Subnet": {"Ref": "Subnet"}, "Data": {"Fn::Base64": {"Fn::Sub": "${Handle} ${AWS::Region}"}}},
    },
    "Wait": {"Type": "X", "DependsOn": ["Instance"], "Properties": {"Handle": {"Ref": "Handle"}}},
    "Subnet": {"Type": "X", "Properties": {"Vpc": {"Fn::GetAtt": ["Vpc", "VpcId"]}, "Absent": {"Ref": "Optional"}}},
    "Handle": {"Type": "X"},
    "Vpc": {"Type": "X"},
    "Optional": {"Type": "X"},
}
PRESENT = [name for name in RESOURCES if name != "Optional"]


def test_dependencies_come_from_references_and_depends_on() -> None:
    found = graph.dependencies(Template(text="", resources=RESOURCES), PRESENT)
    assert found == {
        "Instance": {"Subnet", "Handle"},
        "Wait": {"Instance", "Handle"},
        "Subnet": {"Vpc"},
        "Handle": set(),
        "Vpc": set(),
    }
    assert graph.reverse(found)["Handle"] == {"Instance", "Wait"}


def test_order_puts_everything_after_its_dependencies() -> None:
    order = graph.in_order({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"a"}})
    assert order == ["c", "b", "a", "d"]


def test_a_circle_is_named() -> None:
    with pytest.raises(ValidationError, match=r"Circular dependency between resources: \[a, b\]"):
        graph.in_order({"a": {"b"}, "b": {"a"}, "c": set()})


def test_independent_work_runs_side_by_side() -> None:
    both = threading.Barrier(2, timeout=120)
    assert graph.run({"a": set(), "b": set()}, lambda name: _ignore(both.wait())) == {}


def _ignore(value: object) -> None:
    """A statement as an expression."""


def test_with_on_failure_the_first_failure_stops_new_work() -> None:
    ran: list[str] = []

    def work(name: str) -> None:
        ran.append(name)
        if name == "b":
            raise RuntimeError("no")

    stopped = threading.Event()
    failures = graph.run({"a": set(), "b": {"a"}, "c": {"b"}, "d": {"b"}}, work, on_failure=stopped.set)
    assert list(failures) == ["b"]
    assert ran == ["a", "b"]
    assert stopped.is_set()


def test_without_on_failure_only_dependents_of_the_failure_are_skipped() -> None:
    ran: set[str] = set()

    def work(name: str) -> None:
        ran.add(name)
        if name == "a":
            raise RuntimeError("no")

    failures = graph.run({"a": set(), "b": {"a"}, "c": set(), "d": {"c"}}, work)
    assert list(failures) == ["a"]
    assert ran == {"a", "c", "d"}
