"""`gpucluster submit` as users type it, as far as it works without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gpucluster.cli import main

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "train.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main(["submit", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_dry_run_prints_the_script_alone(submit):
    code, out, err = submit("--nodes", "2", "--launcher", "srun", "--dry-run", "--", "python", "train.py", "--dry-run")
    assert (code, err) == (0, "")
    assert out.startswith("#!/usr/bin/env bash\n")
    assert out.endswith("\n  -- python train.py --dry-run\n")
    assert subprocess.run(["bash", "-n"], input=out.encode(), check=False).returncode == 0


def test_flags_override_the_file(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nnodes: 4\nenv: {A: b}\n")
    _, out, _ = submit("job.yaml", "--nodes", "2", "--env", "C=d=e", "--no-requeue", "--dry-run")
    assert "#SBATCH --nodes=2\n" in out
    assert "#SBATCH --no-requeue\n" in out
    assert "export C=d=e\n" in out


def test_data_to_load_and_to_export(submit, tmp_path):
    link = 'data_repositories: [{path: /data, s3: "s3://bucket-of-mine/data", import: [new]}]'
    (tmp_path / "cluster.yaml").write_text(CLUSTER + f"storage: [{{mount: /fsx, type: fsx-lustre, {link}}}]\n")
    flags = ("--channel", "train=/fsx/data/in", "--exports", "/fsx/data/a", "--exports", "/fsx/data/b")
    code, out, err = submit(*flags, "--dry-run", "--", "python", "train.py")
    assert code == 0, err
    assert [line.split()[1:3] for line in out.splitlines() if line.startswith("#BB_LUA")][:3] == [
        ["stage_in", "path=/fsx/data/in"],
        ["stage_out", "path=/fsx/data/a"],
        ["stage_out", "path=/fsx/data/b"],
    ]


@pytest.mark.parametrize(
    ("words", "nodes", "servers"),
    [(("--servers", "2"), 2, 2), (("--servers", "ratio=0.5,per_node=3"), 1, 3), ((), 0, 2)],
)
def test_servers(submit, tmp_path, words, nodes, servers):
    software = "parameter_servers: {instance_type: m5.xlarge}\nsoftware: {frameworks: [mxnet]}\n"
    (tmp_path / "cluster.yaml").write_text(CLUSTER + software)
    code, out, err = submit("--launcher", "mxnet-ps", "--nodes", "2", *words, "--dry-run", "--", "a")
    assert code == 0, err
    assert f"export NUM_SERVERS={servers} NUM_SERVER_NODES={nodes}\n" in out
    assert (f"#SBATCH hetjob\n#SBATCH --job-name=a\n#SBATCH --partition=ps\n#SBATCH --nodes={nodes}\n" in out) == bool(
        nodes
    )


@pytest.mark.parametrize(
    ("word", "channel"),
    [
        ("train=/home/ubuntu/a", {"source": "/home/ubuntu/a", "shard": "by-rank", "mode": "mount", "unpack": "none"}),
        (
            "val=/home/ubuntu/a=1,b,shard=none,mode=copy,unpack=tar",
            {"source": "/home/ubuntu/a=1,b", "shard": "none", "mode": "copy", "unpack": "tar"},
        ),
    ],
)
def test_channels(submit, tmp_path, word, channel):
    code, _, err = submit("--emit-only", "job", "--channel", word, "--", "a")
    assert code == 0, err
    assert json.loads((tmp_path / "job" / "channels.json").read_text()) == {word.partition("=")[0]: channel}


def test_null_leaves_out_the_files_channels(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("command: [a]\nchannels: {train: /home/ubuntu/a}\n")
    assert submit("job.yaml", "--emit-only", "with")[0] == 0
    code, _, err = submit("job.yaml", "--emit-only", "without", "--channel", "null")
    assert code == 0, err
    assert [(tmp_path / name / "channels.json").exists() for name in ("with", "without")] == [True, False]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "command: this key is required"),
        (("--nodes", "9", "--", "a"), "--nodes: the partition train has at most 4 nodes, got 9"),
        (("--min-nodes", "1", "--", "a"), "--min-nodes: only for horovodrun, got launcher torchrun"),
        (("--env", "A", "--", "a"), "must be NAME=VALUE, got 'A'"),
        (("--servers", "two", "--", "a"), "must be a number such as 2, or keys such as nodes=2,per_node=2, got 'two'"),
        (
            ("--servers", "nodes=x", "--", "a"),
            "must be a number such as 2, or keys such as nodes=2,per_node=2, got 'nodes=x'",
        ),
        (("--servers", "2", "--", "a"), "--servers: only for mxnet-ps and tensorflow-ps, got launcher torchrun"),
        (("none.yaml",), "none.yaml: error: no such file"),
        (("--channel", "train", "--", "a"), "must be NAME=SOURCE or NAME=SOURCE,shard=by-node, got 'train'"),
        (
            ("--channel", "train=/home/a,sharding=x", "--", "a"),
            "--channel.train.sharding: unknown key\n  hint: did you mean 'shard'?",
        ),
        (("--nodse", "2", "--", "a"), "--nodse"),
    ],
)
def test_refused_with_exit_code_2(submit, words, message):
    code, out, err = submit(*words, "--dry-run") if "--" not in words else submit("--dry-run", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_emit_only_writes_the_folder(submit, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    code, out, _ = submit("--emit-only", "job", "--secrets", "TOKEN", "--", "python", "train.py")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["folder"] == "job"
    assert (tmp_path / "job" / "code" / "train.py").read_text() == "print()\n"
    assert (tmp_path / "job" / "job.sbatch").read_text().endswith("\n  -- python train.py\n")
    assert not any("s3cret" in path.read_text() for path in (tmp_path / "job").rglob("*") if path.is_file())
    assert submit("--emit-only", "job", "--", "a")[0] == 2


def test_a_missing_secret_is_reported_before_any_call(submit, monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    code, _, err = submit("--secrets", "TOKEN", "--", "a")
    assert (code, "secrets: TOKEN is not set" in err) == (2, True)


def test_dry_run_loads_nothing_slow(tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    program = (
        "import sys; sys.argv[1:] = ['submit', '--dry-run', '--', 'a']; from gpucluster.start import main; main(); "
        "slow = {'boto3', 'botocore', 'jinja2', 'paramiko', 'rich', 'websockets'}; "
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


@pytest.mark.parametrize(("stdout", "code"), [(os.devnull, 2), ("/dev/full", 120)])
def test_exit_functions_run_and_unwritten_output_is_reported(stdout, code):
    program = (
        "import atexit, sys; from gpucluster.start import main; sys.argv[1:] = ['no-such-verb']; code = main(); "
        "atexit.register(print, 'more'); atexit.register(print, 'last', file=sys.stderr); sys.exit(code)"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open(stdout, "w") as file:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=file, stderr=subprocess.PIPE, text=True, check=False, env=buffered
        )
    assert done.returncode == code
    assert "last" in done.stderr and ("No space left on device" in done.stderr) == (code == 120)
