"""The count of head replacements in cdk.context.json, against the stack's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gpucluster import updates
from gpucluster.cluster.replacements import Replacements
from gpucluster.errors import DeployError
from gpucluster.updates.record import METADATA_KEY

KEY = updates.replacements_key("C", account="123456789012", region="us-east-1")
OTHER = {"hosted-zone:x": "kept"}


def stack(deployed: int, status: str = "UPDATE_ROLLBACK_COMPLETE") -> Mock:
    record = json.dumps({METADATA_KEY: json.dumps({"head_replacements": deployed})})
    answers = {"describe_stacks": {"Stacks": [{"StackStatus": status}]}, "get_template_summary": {"Metadata": record}}
    return Mock(**{f"{call}.return_value": answer for call, answer in answers.items()})


def counted(folder: Path, here: int, cloudformation: Any) -> Replacements:
    entries = {**OTHER, **({KEY: here} if here else {})}
    (folder / "cdk.context.json").write_text(json.dumps(entries))
    return Replacements(folder / "cluster.yaml", "C", KEY, cloudformation)


def entries(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "cdk.context.json").read_text())
    return found


@pytest.mark.parametrize(
    ("here", "deployed", "one_more", "wanted"),
    [(0, 0, False, 0), (0, 0, True, 1), (0, 2, False, 2), (2, 2, True, 3), (0, 2, True, 3)],
)
def test_the_next_deployment_keeps_the_head_or_replaces_it_once(
    tmp_path: Path, here: int, deployed: int, one_more: bool, wanted: int
) -> None:
    counted(tmp_path, here, stack(deployed)).follow(one_more=one_more)
    assert entries(tmp_path) == {**OTHER, **({KEY: wanted} if wanted else {})}


@pytest.mark.parametrize(
    ("status", "deployed", "left"),
    [
        ("UPDATE_ROLLBACK_COMPLETE", 2, 2),
        ("UPDATE_ROLLBACK_COMPLETE", 0, 0),
        ("UPDATE_COMPLETE", 3, 3),
        ("UPDATE_ROLLBACK_FAILED", 2, 3),
        ("UPDATE_IN_PROGRESS", 2, 3),
    ],
)
def test_a_deployment_that_fails_takes_the_count_back_once_the_stack_is_at_rest(
    tmp_path: Path, status: str, deployed: int, left: int
) -> None:
    count = counted(tmp_path, 3, stack(deployed, status))
    with pytest.raises(DeployError), count.unless_it_fails():
        raise DeployError("no capacity")
    assert entries(tmp_path) == {**OTHER, **({KEY: left} if left else {})}
    assert count.awaited() == (KEY if left > deployed else "")


def test_a_deployment_that_succeeds_keeps_the_count(tmp_path: Path) -> None:
    with counted(tmp_path, 3, stack(2)).unless_it_fails():
        pass
    assert entries(tmp_path)[KEY] == 3
