"""Which jobs ask for a file system that lives with jobs: it is made for those that name a path of it, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from gpucluster_node.lustre import directives

from gpucluster.config import loads
from gpucluster.data.run import Options
from gpucluster.errors import UsageError
from gpucluster.job import SbatchRequest, load, staging
from gpucluster.layout import expand
from gpucluster.submission import shard_array

FOLDER = "/home/ubuntu/jobs/train-20261121-120000-4f1a"
CLUSTER = """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [p4d.24xlarge], max_nodes: 4}
  - {name: ram, instance_types: [p4d.24xlarge], max_nodes: 4}
software: {frameworks: [torch], containers: true}
s3_access: [{uri: "s3://bucket-of-mine", access: read-write}]
storage:
  - mount: /fsx
    type: fsx-lustre
    lifetime: jobs
    data_repositories:
      - {path: /data, s3: "s3://bucket-of-mine/data", import: [new]}
      - {path: /results/, s3: "s3://bucket-of-mine/results"}
  - {mount: /ram, type: beegfs-ram, partition: ram, gib_per_node: 100, scope: job, source: /fsx/data, export: EXPORT}
"""
LAYOUT = expand(loads(CLUSTER.replace("EXPORT", "s3://bucket-of-mine/ram")))
STAYS = expand(
    loads(CLUSTER.replace("EXPORT", "s3://bucket-of-mine/ram").replace("lifetime: jobs", "lifetime: cluster"))
)
BACK = expand(loads(CLUSTER.replace("EXPORT", "/fsx/results/ram").replace("source: /fsx/data, ", "")))


@pytest.mark.parametrize(
    ("layout", "command", "mounts"),
    [
        (LAYOUT, ("python", "train.py"), []),
        (LAYOUT, ("python", "train.py", "/fsx/data"), ["/fsx"]),
        (STAYS, ("python", "train.py"), ["/fsx"]),
    ],
)
def test_a_node_is_to_have_what_is_made_for_the_job(layout: Any, command: tuple[str, ...], mounts: list[str]) -> None:
    request = SbatchRequest.from_spec(load(layout, flags={"command": command}), layout, FOLDER)
    assert request.expected["mounts"] == mounts


def script(layout: Any = LAYOUT, **keys: Any) -> str:
    spec = load(layout, flags={"command": ("python", "train.py")} | keys)
    return SbatchRequest.from_spec(spec, layout, FOLDER).materialize()


def lines(text: str) -> list[str]:
    return [line.removeprefix("#BB_LUA ") for line in text.splitlines() if line.startswith("#BB_LUA")]


NAMED = {
    "word of the command": {"command": ("python", "train.py", "/fsx/data")},
    "option": {"command": ("python", "train.py", "--data=/fsx")},
    "shell line": {"command": ("bash", "-c", "tar x -C /fsx/data; wait")},
    "list": {"command": ("python", "train.py", "/home/ubuntu/a:/fsx/data")},
    "file address": {"command": ("python", "train.py", "file:///fsx/data")},
    "environment": {"env": {"DATA": "/fsx/data"}},
    "container's mount": {"container_image": "docker://ubuntu", "container_mounts": ("/fsx:/fsx",)},
    "container": {"container_image": "/fsx/images/a.sqsh"},
    "option of sbatch": {"sbatch_args": ("--comment=/fsx/results/err.txt",)},
    "second place of its log": {"output": "/fsx/results/%j.out"},
    "source of its RAM": {"partition": "ram"},
}


@pytest.mark.parametrize("how", NAMED)
def test_a_job_that_names_its_path_uses_it(how: str) -> None:
    assert lines(script(**NAMED[how]))[0] == "use path=/fsx"
    assert lines(script(**NAMED[how]))[-1] == f"folder path={FOLDER}"


@pytest.mark.parametrize("how", [how for how in NAMED if "RAM" not in how])
def test_a_permanent_file_system_is_not_requested(how: str) -> None:
    assert lines(script(STAYS, **NAMED[how])) == []


def test_the_request_comes_before_data_is_moved() -> None:
    text = script(channels={"train": {"source": "/fsx/data/a"}}, exports=("/fsx/results",))
    assert lines(text) == [
        "use path=/fsx",
        "stage_in path=/fsx/data/a",
        "stage_out path=/fsx/results",
        f"folder path={FOLDER}",
    ]
    parsed = directives.parse(text)
    assert (parsed.use, parsed.stage_in, parsed.stage_out) == (("/fsx",), ("/fsx/data/a",), ("/fsx/results",))


def test_the_export_target_of_ram_exists_at_the_jobs_end() -> None:
    assert lines(script(BACK, partition="ram")) == ["use path=/fsx", f"folder path={FOLDER}"]
    assert lines(script(BACK, partition="train")) == []


@pytest.mark.parametrize(
    "word", ["/fsx2/data", "/home/fsx", "~/fsx", "s3://fsx/data", "a/fsx", "${HOME}/fsx", "/fsx.old", "/fsx-old", "fsx"]
)
def test_a_path_with_a_similar_name_does_not_count(word: str) -> None:
    assert not staging.names(word, "/fsx")
    assert lines(script(command=("cat", word))) == []


@pytest.mark.parametrize(
    ("source", "target"), [("/fsx/data", "/home/ubuntu/out"), ("/home/ubuntu/in", "/fsx/results/a")]
)
def test_an_array_of_shards_does_not_ask_for_it(source: str, target: str) -> None:
    options = Options(source, target, shards={"": 4})
    with pytest.raises(UsageError, match="exists only while jobs use /fsx") as caught:
        shard_array.request(options, 2, None, LAYOUT)
    assert caught.value.hint and "/fsx/data is s3://bucket-of-mine/data" in caught.value.hint
    assert shard_array.request(options, 2, None, STAYS).parts == 2
