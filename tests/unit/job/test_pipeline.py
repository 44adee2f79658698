"""pipeline.yaml: read, checked as a whole, and put into an order."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import pipeline
from gpucluster.job.load import is_pipeline
from gpucluster.layout import expand

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)
THREE = """\
project: demo
defaults: {nodes: 2, time: 10m}
jobs:
  evaluate:
    command: [python, evaluate.py]
    nodes: 1
    channels: {model: {task: train, output: model}}
    after: [prepare]
  train:
    command: [python, train.py]
    channels:
      data: {task: prepare, output: shards}
    outputs: [model]
  prepare: {command: [python, prepare.py], outputs: [shards]}
"""


@pytest.fixture
def read(tmp_path: Path):
    def call(text: str) -> pipeline.Pipeline:
        (tmp_path / "pipeline.yaml").write_text(text)
        return pipeline.load(LAYOUT, tmp_path / "pipeline.yaml")

    return call


def test_each_job_comes_after_what_it_waits_for(read) -> None:
    found = read(THREE)
    assert [(step.name, step.after) for step in found.steps] == [
        ("prepare", ()),
        ("train", ("prepare",)),
        ("evaluate", ("train", "prepare")),
    ]
    assert {step.spec.project for step in found.steps} == {"demo"}
    assert found.steps[1].spec.channels["data"].source == "/home/ubuntu/tasks/demo/prepare/outputs/shards"


def test_defaults_fill_in_the_keys_that_a_job_lacks(read) -> None:
    assert [(step.spec.nodes, step.spec.time) for step in read(THREE).steps] == [
        (2, "00:10:00"),
        (2, "00:10:00"),
        (1, "00:10:00"),
    ]


def test_a_job_may_have_a_file_of_its_own(read, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "job.yaml").write_text("name: other\ncommand: [python, a.py]\nnodes: 3\n")
    (step,) = read("project: demo\ndefaults: {time: 5}\njobs: {one: {file: sub/job.yaml}}\n").steps
    assert (step.name, step.spec.nodes, step.spec.time, step.file) == (
        "one", 3, "00:05:00", tmp_path / "sub" / "job.yaml",
    )  # fmt: skip


def test_numbers_are_as_written_in_the_file_its_defaults_and_a_jobs_own_file(read, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("command: [a, 010]\n")
    text = "project: demo\ndefaults: {env: {V: 1.10}}\njobs: {one: {command: [b, 1_000]}, two: {file: job.yaml}}\n"
    assert [(step.spec.command, step.spec.env) for step in read(text).steps] == [
        (("b", "1_000"), {"V": "1.10"}),
        (("a", "010"), {"V": "1.10"}),
    ]


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("task: prepare", "task: perpare", "12:20: error: jobs.train.channels.data.task", "did you mean 'prepare'?"),
        ("output: shards", "output: shard", "12:37: error: jobs.train.channels.data.output", "did you mean 'shards'?"),
        ("output: model", "output: x", "7:45: error: jobs.evaluate.channels.model.output", "known: model"),
        ("after: [prepare]", "after: [prepair]", "8:13: error: jobs.evaluate.after[0]", "did you mean 'prepare'?"),
        ("outputs: [shards]", "outputs: [shards], after: [train]", "9:3: error: jobs.train",
         "in a circle: train → prepare → train"),
        ("nodes: 2", "nodes: 9", "2:19: error: nodes", "has at most 4 nodes, got 9"),
        ("nodes: 1", "nodse: 1", "6:5: error: nodse", "did you mean 'nodes'"),
        ("project: demo", "project: [demo]", "1:10: error: project", "must be a name"),
        ("defaults:", "default:", "2:1: error: default", "did you mean 'defaults'?"),
        ("    nodes: 1", "    name: x", "6:5: error: jobs.evaluate.name", "the pipeline sets this key"),
        ("    nodes: 1", "    file: x", "6:11: error: jobs.evaluate.file", "the only key"),
    ],
)  # fmt: skip
def test_refused_with_its_place(read, old: str, new: str, place: str, said: str) -> None:
    with pytest.raises(JobSpecError) as refused:
        read(THREE.replace(old, new, 1))
    rendered = refused.value.render()
    assert f"pipeline.yaml:{place}" in rendered, rendered
    assert said in rendered, rendered


def test_a_task_that_is_not_in_the_file_may_be_on_the_cluster(read) -> None:
    text = THREE.replace("task: prepare", "task: elsewhere").replace("after: [prepare]", "after: [other/thing, 12]")
    assert [step.after for step in read(text).steps] == [(), ("train",), ()]


@pytest.mark.parametrize(
    "text", ["- a\n", "project: demo\n", "project: demo\njobs: {}\n", "project: demo\njobs: {a: 1}\n"]
)
def test_files_that_are_no_pipeline_are_refused(read, text: str) -> None:
    with pytest.raises(JobSpecError, match="must be a section"):
        read(text)


def test_which_files_are_pipelines(tmp_path: Path) -> None:
    for name, text in (("a", THREE), ("b", "command: x\nenv: {jobs: 1}\n")):
        (tmp_path / name).write_text(text)
    assert [is_pipeline(tmp_path / name) for name in "abc"] == [True, False, False]
