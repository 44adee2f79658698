"""A value that is refused has one error, and no rule says more about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucluster.config import loads
from gpucluster.errors import ConfigError


@pytest.mark.parametrize(
    "keys",
    [
        {"instance_types": ["c5.huge"], "max_usd_per_hour": 5},
        {"node_options": {"Gres": "licence:2 gpu:1"}},
        {"node_options": {"Feature": "a b"}},
        {"partition_options": {"MaxTime": "1 day"}},
        {"root_volume": {"iops": "many"}},
        {"scripts": [{"source": "http://example.com/a.sh", "sha256": "0"}]},
        {"security_groups": ["sg-1"]},
        {"threads_per_core": 3},
    ],
)
def test_a_refused_value_is_said_once(keys: dict[str, Any]) -> None:
    partition = {"name": "train", "instance_types": ["c5.large"], "max_nodes": 1} | keys
    with pytest.raises(ConfigError) as raised:
        loads(json.dumps({"name": "Mine", "region": "us-east-1", "partitions": [partition]}))
    said = [each.render() for each in raised.value.problems]
    assert not any("object at 0x" in each for each in said)
    errors = [each for each in raised.value.problems if each.level == "error"]
    assert len({each.key for each in errors}) == len(errors), said
