"""Placeholders in a template for values that CDK looks up, if there are no credentials."""

from __future__ import annotations

import pytest

from gpucluster.config import loads
from stacks import placeholders

CLUSTER = "name: c\nregion: us-east-1\npartitions: [{name: a, instance_types: [g5.xlarge], max_nodes: 1}]\n"


@pytest.mark.parametrize(
    ("more", "zones"),
    [("", "abc"), ("availability_zone: us-east-1b\n", "abc"), ("availability_zone: us-east-1f\n", "abcf")],
)
def test_the_zone_of_the_file_is_one_of_the_account(more: str, zones: str) -> None:
    """CDK makes no subnet in another: examples in us-east-1d and us-east-1f could not be synthesized."""
    found = placeholders.context(loads(CLUSTER + more))
    key = f"availability-zones:account={placeholders.NO_ACCOUNT}:region=us-east-1"
    assert found[key] == [f"us-east-1{each}" for each in zones]
