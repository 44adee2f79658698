"""Mistakes of somebody on the first day: each gives one message that says what is wrong and what to do next."""

from __future__ import annotations

import os
from pathlib import Path

import boto3
import pytest

from gpucluster.cli import main
from gpucluster.data import s3

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\n")
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUCLUSTER_CONFIG", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["render"],
         "error: FOLDER is missing\nusage: gpucluster render [OPTIONS] FOLDER\nhint: gpucluster render --help\n"),
        (["forward"], "error: PORT[:REMOTE] is missing\nusage: gpucluster forward [OPTIONS] PORT[:REMOTE]\n"),
        (["data", "shard", "a", "b"], "error: --shards is missing\nusage: gpucluster data shard [OPTIONS] SRC DST\n"),
        (["--debug"], "error: VERB is missing\nusage: gpucluster [OPTIONS] VERB [ARGUMENTS]...\n"),
        (["logs", "12", "13"], "error: unexpected argument: 13\nusage: gpucluster logs [OPTIONS] [JOB_ID]\n"),
        (["env", "foo"], "error: no such command: 'foo'; `gpucluster env` has build, list, prune, verify\n"),
        (["head", "repalce"], "error: no such command: 'repalce'; `gpucluster head` has replace\n"),
        (["validate", "--jsn"],
         "error: no such option: --jsn, did you mean '--json'?\nhint: gpucluster validate --help\n"),
        (["plan", "--yes"], "error: no such option: --yes\nhint: gpucluster plan --help\n"),
        (["init", "--example"], "error: --example needs a value\n"),
        (["types", "--gpus", "many"], "command line: error: --gpus: must be a whole number, got 'many'\n"),
        (["jobs", "-n", "-1"], "command line: error: --count: must be at least 0, got -1\n"),
        (["data", "shard", "a", "b", "--shards", "1", "--array", "5000"],
         "command line: error: --array: must be from 1 to 1000, got 5000\n"),
        (["doctor", "--require", "gpu"], "command line: error: --require: must be aws or local, got 'gpu'\n"),
        (["fetch", "12", "log"], "command line: error: PART: must be all, logs, output or state, got 'log'\n"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)  # fmt: skip
def test_a_wrong_command_line_says_what_is_missing_or_allowed(words: list[str], message: str, capsys: Captured) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["submit", "cluster.yaml", "--dry-run"],
         "cluster.yaml: error: this is a cluster file, not a job\n  hint: -c cluster.yaml chooses it; "),
        (["validate", "job.yaml"],
         "job.yaml: error: this is a job, not a cluster file\n"
         "  hint: `gpucluster submit job.yaml --dry-run` checks it"),
        (["-c", "data", "plan"], "data: error: this is a folder\n  hint: name the file in it: -c data/cluster.yaml\n"),
        (["submit", "data/", "--dry-run"], "error: --dry-run comes after data/"),
        (["submit", "no.yaml", "--dry-run"],
         "no.yaml: error: no such file\n  hint: `gpucluster init --template hello` writes a folder with a job.yaml\n"),
        (["submit", "--dry-run", "job.yaml", "other.yaml"],
         "error: other.yaml is a second file, after job.yaml\nhint: submit one after the other, or write a pipeline"),
        (["submit", "--workdir", "nosuch", "--dry-run", "--", "ls"],
         "error: workdir: nosuch: there is no such folder on this machine\n"),
        (["submit", "--workdir", "train.py", "--dry-run", "--", "ls"],
         "error: workdir: train.py: is not a folder\n"),
        (["submit", "--sweep", "lr=", "--dry-run", "--", "ls"],
         "command line: error: --sweep.lr: must have a value, such as 0.1,0.01 or 1..5, got ''\n"),
        (["submit", "--channel", "train=s3:/b/x", "--dry-run", "--", "ls"],
         "command line: error: --channel.train.source: must be an S3 address such as s3://bucket/prefix, got "
         "'s3:/b/x'\n  hint: write s3://b/x\n"),
        (["submit", "--channel", "train=data", "--dry-run", "--", "ls"],
         "command line: error: --channel.train.source: must be an S3 address such as s3://bucket/prefix, an absolute "
         "path on the cluster such as /fsx/imagenet, or a folder here such as ./data, got 'data'\n"),
        (["submit", "--state", "here", "--dry-run", "--", "ls"],
         "command line: error: --state: must be an S3 address such as s3://bucket/prefix, or an absolute path on the "
         "cluster such as /fsx/states, got 'here'\n"),
        (["submit", "--python", "venv", "--dry-run", "--", "ls"],
         "command line: error: --python: must be an absolute path on the cluster, such as /fsx/folder, got 'venv'\n"),
        (["shell", "--gpus", "9"], "error: --gpus 9: a node of train (g5.12xlarge) has 4 GPUs\n"),
        (["init", "a/b/c.yaml"], "error: a/b/c.yaml cannot be written: there is no folder a/b\nhint: mkdir -p a/b\n"),
        (["data", "verify", "nosuch"], "error: nosuch: no such folder\nhint: name the folder"),
        (["data", "verify", "train.py"], "error: train.py: is not a folder\nhint: name the folder"),
        (["data", "shard", "data", "out", "--shards", "train=1,train=2"],
         "command line: error: --shards: must name each split once, got 'train=1,train=2'\n"),
        (["resubmit", "12"], "error: which elements of job 12?\nhint: `gpucluster resubmit 12 --failed`"),
        (["resubmit", "12_3", "--failed"], "error: 12_3 is one element, and --failed chooses among all of them\n"),
        (["context", "use"], "error: NAME is missing\nhint: `gpucluster context list` lists the contexts, --none"),
        (["doctor", "--node", "foo"], "error: --node: must be a node's name such as train-1, got 'foo'\n"),
        (["cp", ":a", ":b"], "error: one path must be on the cluster, and the other one on this machine\nhint: copy"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)  # fmt: skip
def test_a_wrong_file_or_value_says_what_to_do(words: list[str], message: str, capsys: Captured) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""


def test_a_template_is_written_to_another_folder_if_there_is_one(capsys: Captured) -> None:
    assert main(["init", "--template", "hello"]) == 0
    assert main(["init", "--template", "hello"]) == 2
    message = (
        "error: hello/cluster.yaml already exists\nhint: name another folder: gpucluster init --template hello FOLDER\n"
    )
    assert capsys.readouterr().err.endswith(message)


def test_a_pipeline_without_a_project_says_that_it_is_required(folder: Path, capsys: Captured) -> None:
    (folder / "pipeline.yaml").write_text("jobs:\n  a: {command: ls}\n")
    assert main(["submit", "pipeline.yaml", "--dry-run"]) == 2
    assert "error: project: this key is required: a name that its jobs share\n" in capsys.readouterr().err


def test_data_in_s3_without_credentials_says_how_to_get_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")  # `data` sets it for its processes
    monkeypatch.setattr(s3, "_client", s3._client.__wrapped__)  # an earlier test's client may have credentials
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert main(["data", "verify", "s3://bucket"]) == 3
    assert "no AWS credentials" in capsys.readouterr().err
