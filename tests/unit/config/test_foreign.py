"""Files of other tools, given as a cluster file or as a job, get one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.config.document import Document
from gpucluster.config.foreign import recognized
from gpucluster.config.parse import parse
from gpucluster.errors import ConfigError

PARALLELCLUSTER = """\
HeadNode:
  InstanceType: c5n.2xlarge
  Networking: {SubnetId: subnet-0123456789abcdef0}
Image: {Os: alinux2}
Region: us-east-1
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: queue1
      ComputeResources: [{Name: nodes1, InstanceType: p3dn.24xlarge, MinCount: 0, MaxCount: 2}]
"""
VERSION_2 = """\
## AWS ParallelCluster config
[global]
cluster_template = default
update_check = true
[cluster default]
key_name = key1
"""
SBATCH = "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n"
COMPOSE = "x-env: &env {A: 1}\nservices:\n  web: {image: nginx, environment: *env}\n"

FILES = [
    (PARALLELCLUSTER, "a configuration of AWS ParallelCluster"),
    (VERSION_2, "a configuration of AWS ParallelCluster 2"),
    ("; mine\n[cluster default]\nkey_name = key1\n", "a configuration of AWS ParallelCluster 2"),
    ("[tool.poetry]\nname = 'a'\n", "an INI or TOML file"),
    (SBATCH, "a script"),
    (COMPOSE, "a Docker Compose file"),
    ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "a Kubernetes manifest"),
    ("Resources: {A: {Type: AWS::EC2::VPC}}\n", "a CloudFormation template"),
    ("cluster_name: a\nprovider: {type: aws}\n", "a cluster file of Ray"),
    ("type: task\nnodes: 2\ncommands: [python train.py]\n", "a configuration of dstack"),
]


@pytest.mark.parametrize(("text", "what"), FILES)
def test_a_file_of_another_tool_is_named(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    assert problem.message == f"this is {what}, not a cluster file"
    assert problem.hint


@pytest.mark.parametrize(("text", "what"), FILES)
def test_it_is_named_as_a_job_too(text: str, what: str) -> None:
    foreign = recognized(parse(text, "job.yaml"), cluster=False)
    assert foreign and foreign.what == what


def test_a_task_of_skypilot_is_no_cluster_but_may_be_a_job() -> None:
    task = parse("num_nodes: 2\nrun: python train.py\n", "x")
    foreign = recognized(task, cluster=True)
    assert foreign and foreign.what == "a task of SkyPilot"
    assert recognized(task, cluster=False) is None


@pytest.mark.parametrize(
    "text",
    ["", "- a\n", "[a, b]\n", "a: 1\n", "name: a\nregion: us-east-1\nservices: {}\n", "command: [a]\nrun: b\n", "'#!'"],
)
def test_other_files_are_checked_key_by_key(text: str) -> None:
    assert recognized(parse(text, "x"), cluster=True) is None


def test_the_command_line_is_no_file() -> None:
    assert recognized(Document("the command line"), cluster=False) is None


def test_the_page_that_the_hint_names_exists() -> None:
    foreign = recognized(parse(PARALLELCLUSTER, "x"), cluster=True)
    assert foreign and "docs/existing-slurm.md" in foreign.hint
    assert (Path(__file__).resolve().parents[3] / "docs/existing-slurm.md").is_file()
