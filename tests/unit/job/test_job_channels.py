"""A job's channels: which ones are refused before anything runs, and the files that its script reads."""

from __future__ import annotations

import json

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
storage:
  - {mount: /fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}
s3_access: [{uri: "s3://data/sets"}]
software: {frameworks: [torch, horovod], containers: true}
"""
    )
)


def spec(channels, **flags):
    return load(LAYOUT, flags={"command": ("a",), "channels": channels} | flags)


def one(**channel):
    return {"train": channel}


@pytest.mark.parametrize(
    ("channels", "flags", "message"),
    [
        (
            one(source="/data/x"),
            {},
            "--channel.train.source: /data/x is not on shared storage (/fsx, /h",
        ),
        (
            one(source="/fsx/../data"),
            {},
            "--channel.train.source: /fsx/../data has .., which may lead out of shared storage (/fsx, /h",
        ),
        (
            one(source="/fsx/a/../b"),
            {},
            "--channel.train.source: /fsx/a/../b has .., which may lead out of shared storage (/fsx, /h",
        ),
        (
            one(source="s3://data/sets2"),
            {},
            "--channel.train.source: the jobs of the cluster Test may not read s3://data/sets2",
        ),
        (
            one(source="s3://data/sets", mode="mount"),
            {},
            "--channel.train.mode: mount needs a folder, got s3://data/sets",
        ),
        (one(source="/fsx/x", mode="stream"), {}, "--channel.train.mode: stream needs an s3:// source, got /fsx/x"),
        (
            one(source="/fsx/x", unpack="tar"),
            {},
            "--channel.train.unpack: unpack needs mode copy, got mode mount",
        ),
        (one(source="/fsx/x", shard="by-file"), {}, "--channel.train.shard: must be by-rank, by-node or none"),
        ({"Train": {"source": "/fsx/x"}}, {}, "--channel.Train: must be up to 32 lower-case letters"),
        (one(source="x"), {}, "--channel.train.source"),
        (
            one(source="/fsx/x", shard="by-node"),
            {"launcher": "horovodrun", "nodes": 2, "min_nodes": 1},
            "--channel.train.shard: an elastic job that loses a node would lose that node's part of the data",
        ),
    ],
)
def test_refused(channels, flags, message):
    with pytest.raises(JobSpecError) as refused:
        spec(channels, **flags)
    messages = [f"{notice.key}: {notice.message}" for notice in refused.value.problems]
    assert any(each.startswith(message) for each in messages), messages


@pytest.mark.parametrize(
    "channels",
    [
        one(source="/fsx/x"),
        one(source="/home/ubuntu/x", mode="copy", unpack="tar", shard="by-node"),
        one(source="s3://data/sets/imagenet/", mode="stream"),
        one(source="s3://data/sets"),
    ],
)
def test_taken(channels):
    assert spec(channels).channels["train"].source


def test_a_job_with_its_own_aws_keys_may_read_any_bucket():
    assert spec(one(source="s3://theirs"), secrets=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")).channels


def test_a_users_image_may_contain_data():
    own = expand(
        loads(
            "name: Test\nregion: us-east-1\nsoftware: {image: ami-0123456789abcdef0}\n"
            "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
        )
    )
    assert load(own, flags={"command": ("a",), "channels": one(source="/data/x")}).channels


def files(channels, **flags):
    return SbatchRequest.from_spec(spec(channels, **flags), LAYOUT, "/home/ubuntu/jobs/a").files()


def test_files_of_channels_in_the_job_folder():
    texts = files({"train": {"source": "/fsx/x"}, "val": {"source": "s3://data/sets", "shard": "none"}})
    assert json.loads(texts["channels.json"]) == {
        "train": {"source": "/fsx/x", "shard": "by-rank", "mode": "mount", "unpack": "none"},
        "val": {"source": "s3://data/sets", "shard": "none", "mode": "copy", "unpack": "none"},
    }


def test_a_job_without_channels_has_nothing_of_them():
    assert "channels.json" not in files({})


def test_containers_mount_the_channels():
    script = files(one(source="/fsx/x/"), container_image="a", container_mounts=("/efs:/efs",))["job.sbatch"]
    assert "CONTAINER_MOUNTS=/efs:/efs,/fsx/x:/fsx/x:ro\n" in script
