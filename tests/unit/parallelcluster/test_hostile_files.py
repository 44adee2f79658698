"""`gpucluster init --from`: files whose keys or values nobody expects. Nothing is lost, and the result can be read."""

from __future__ import annotations

from typing import Any

import pytest

from gpucluster.config import loads
from tests.unit.parallelcluster.files import converted, small

ACTIONS = {
    "OnNodeConfigured": {"Script": "http://example.com/a.sh"},
    "OnNodeUpdated": {"Script": "s3://bucket/updated.sh", "Args": ["--again"]},
}
CACHE = {"MountDir": "/cache", "StorageType": "FileCache", "FileCacheSettings": {"FileCacheId": "fc-0123456789abcdef0"}}


def test_storage_that_cannot_be_mounted_is_said_even_if_there_is_no_other() -> None:
    made = converted(small(SharedStorage=[CACHE]))
    assert "MountDir (/cache)" in made.text
    assert "fc-0123456789abcdef0" in made.text
    assert "/cache is missing: nodes cannot mount FileCache" in made.look


def test_a_key_without_counterpart_is_said_beside_keys_that_are_refused() -> None:
    text = converted(small(HeadNode__CustomActions=ACTIONS)).text
    assert "HeadNode.CustomActions.OnNodeUpdated.Script" in text
    assert "(s3://bucket/updated.sh)" in text
    assert "# - {source: http://example.com/a.sh" in text


def test_a_setting_of_several_words_stays_one_line() -> None:
    """slurmctld ends if the line of a NodeSet has no nodes."""
    settings = {"CustomSlurmSettings": [{"NodeSet": "fast", "Feature": "nvme"}, {"KillWait": 20, "MinJobAge": 60}]}
    lines = loads(converted(small(Scheduling__SlurmSettings=settings)).text).slurm.slurm_conf.splitlines()
    assert lines == ["NodeSet=fast Feature=nvme", "KillWait=20", "MinJobAge=60"]


@pytest.mark.parametrize(
    ("key", "differs"), [("run*", True), ("a/*/b", True), ("run/*", False), ("*", False), ("x", False)]
)
def test_a_pattern_of_s3_that_is_no_folder_is_said(key: str, differs: bool) -> None:
    made = converted(small(HeadNode__Iam={"S3Access": [{"BucketName": "my-bucket", "KeyName": key}]}))
    assert any(each.endswith(f"KeyName: {key}") for each in made.look) == differs


@pytest.mark.parametrize(
    "asked",
    [
        {"queue__Name": "train\nagain"},
        {"queue__Name": "train\u2028again"},
        {"HeadNode__Ssh": {"KeyName": "a\u2028b: c"}},
        {"queue__Tags": [{"Key": "a", "Value": "b\x85c"}]},
        {"Iam__ResourcePrefix": "a\u2028b"},
    ],
)
def test_a_line_break_in_a_value_breaks_no_line_of_the_result(asked: dict[str, Any]) -> None:
    assert loads(converted(small(**asked)).text).partitions


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_a_number_without_end_is_left_out(number: float) -> None:
    text = converted(small(HeadNode__LocalStorage={"RootVolume": {"Size": number}})).text
    assert "HeadNode.LocalStorage.RootVolume.Size" in text
    assert loads(text).head_node.root_volume.gib is None
