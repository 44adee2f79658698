"""The measure: how many of the inputs become a cluster.yaml that is deployed without an edit, see test_moved_in.py."""

from __future__ import annotations

import pytest

from tests.unit.parallelcluster.files import NAMES, of
from tests.unit.synthesis import synthesize

TO_EDIT = {"05": "p3dn.24xlarge cannot run dlami-ubuntu-24.04"}
"""Inputs that need an edit, and why."""
REFUSED = {
    "06": "p3.2xlarge cannot run",
    "16": "p3.2xlarge cannot run",
    "11": "GpuCluster sets JobAcctGatherType itself",
}
"""Inputs of which a part stays a comment because a check of ours refuses it."""


@pytest.mark.parametrize("name", NAMES)
def test_a_converted_file_is_synthesized_without_an_edit(name: str) -> None:
    made = of(name)
    assert made.complete == (name not in TO_EDIT), made.look
    if made.complete:
        resources = synthesize(made.text)["Resources"].values()
        assert "AWS::EC2::Instance" in {each["Type"] for each in resources}
    else:
        assert any(TO_EDIT[name] in each for each in made.look)


def test_our_checks_refuse_no_more() -> None:
    said = {name: [each for each in of(name).look if " is a comment: " in each] for name in NAMES}
    refused = {name: lines for name, lines in said.items() if lines}
    assert refused.keys() == REFUSED.keys()
    assert all(len(lines) == 1 and REFUSED[name] in lines[0] for name, lines in refused.items()), refused
