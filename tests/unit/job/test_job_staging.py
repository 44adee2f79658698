"""Which data a job's script asks Slurm to move, and which requests are refused."""

from __future__ import annotations

import pytest
from gpucluster_node.lustre import directives

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

FOLDER = "/home/ubuntu/jobs/train-20261121-120000-4f1a"
CLUSTER = """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
parameter_servers: {instance_type: m4.16xlarge}
software: {frameworks: [torch, tensorflow]}
"""
LAYOUT = expand(
    loads(
        CLUSTER
        + """
s3_access: [{uri: "s3://bucket-of-mine/data"}]
storage:
  - mount: /fsx
    type: fsx-lustre
    deployment: scratch-2
    capacity_gib: 1200
    data_repositories:
      - {path: /data, s3: "s3://bucket-of-mine/data", import: [new]}
      - {path: /results/, s3: "s3://bucket-of-mine/results"}
"""
    )
)


def script(layout=LAYOUT, **flags) -> str:
    spec = load(layout, flags={"command": ("python", "train.py")} | flags)
    return SbatchRequest.from_spec(spec, layout, FOLDER).materialize()


def channel(source: str, **more: str) -> dict[str, str]:
    return {"source": source, **more}


def test_a_job_without_data_has_no_stages():
    assert "#BB_LUA" not in script(channels={"train": channel("s3://bucket-of-mine/data")})


def test_the_head_node_reads_the_directives_back():
    text = script(
        channels={"train": channel("/fsx/data/a b", mode="copy"), "test": channel("/home/ubuntu/small")},
        exports=("/fsx/results", "/fsx/results/it's"),
    )
    found = directives.parse(text)
    assert found == directives.Directives(("/fsx/data/a b",), ("/fsx/results", "/fsx/results/it's"), FOLDER)
    commands = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert text.index("#BB_LUA") < text.index(commands[0]), "Slurm reads them no further than the first command"


def test_the_first_part_of_a_job_with_servers_has_them():
    text = script(launcher="tensorflow-ps", framework="tensorflow", servers={"nodes": 1}, exports=("/fsx/results",))
    assert text.index("#BB_LUA") < text.index("#SBATCH hetjob")


REFUSED = {
    "/home/ubuntu/out": "must lie on a Lustre file system",
    "/fsx/data/../../etc": "must lie on a Lustre file system",
    "/fsx/other": "must lie in a folder that is linked to S3",
    "/fsx/resultsandmore": "must lie in a folder that is linked to S3",
    "/fsx/results/%j": "contains '%'",
    "/fsx/results/capacity=1": "contains 'capacity='",
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_cannot_be_exported_is_refused(path):
    with pytest.raises(JobSpecError) as caught:
        script(exports=(path,))
    assert REFUSED[path] in caught.value.render()


def test_without_lustre_there_is_nothing_to_export():
    with pytest.raises(JobSpecError) as caught:
        script(expand(loads(CLUSTER)), exports=("/fsx/results",))
    assert "has no Lustre file system" in caught.value.render()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#!/bin/bash\n#BB_LUA stage_in path=/a\n#SBATCH -N1\n#BB_LUA stage_in path=/a\n", (("/a",), ())),
        ("#!/bin/bash\necho\n#BB_LUA stage_in path=/a\n", ((), ())),
        ("#!/bin/bash\n#BB_LUA stage_out path=/a path=/b\n", ((), ("/a path=/b",))),
        ("#!/bin/bash\n#BB_LUA stage_out path=a\n#BB_LUA other path=/a\n", ((), ())),
    ],
)
def test_directives(text, found):
    parsed = directives.parse(text)
    assert (parsed.stage_in, parsed.stage_out) == found
