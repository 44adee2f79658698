"""The scripts as files to review (`GOLDEN=rewrite` writes them anew)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load
from gpucluster.job.script import TEMPLATES, folder_name
from gpucluster.launchers import DEFAULT, LAUNCHERS, VARIANTS, LaunchRequest
from gpucluster.layout import expand
from gpucluster_job import launch

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "jobs"
FOLDER = "/home/ubuntu/jobs/digits-20261121-120000-4f1a"
LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: big, instance_types: [p4d.24xlarge], max_nodes: 8}
parameter_servers: {instance_type: m4.16xlarge}
storage: [{mount: /fsx, type: fsx-lustre}]
software: {frameworks: [torch, horovod, smddp, mxnet, tensorflow], containers: true}
"""
    )
)

JOBS = {
    "horovodrun": {"launcher": "horovodrun", "nodes": 2, "gpus_per_node": 2, "time": "2:00:00"},
    "horovodrun-mpi": {"launcher": "horovodrun", "controller": "mpi", "nodes": 2, "gpus_per_node": 2},
    "horovodrun-elastic": {"launcher": "horovodrun", "nodes": 4, "min_nodes": 2, "gpus_per_node": 2},
    "mpirun": {"launcher": "mpirun", "nodes": 2, "gpus_per_node": 2},
    "smddp": {"launcher": "smddp", "nodes": 2, "partition": "big"},
    "torchrun": {"launcher": "torchrun", "nodes": 2, "gpus_per_node": 2},
    "srun": {"launcher": "srun", "nodes": 2},
    "mxnet-ps": {"launcher": "mxnet-ps", "nodes": 2, "servers": {"ratio": 1.0, "per_node": 2}, "time": "2:00:00"},
    "mxnet-ps-beside": {"launcher": "mxnet-ps", "nodes": 2},
    "tensorflow-ps": {"launcher": "tensorflow-ps", "nodes": 2, "servers": {"nodes": 1}, "exclusive": False},
    "tensorflow-mwms": {"launcher": "tensorflow-mwms", "nodes": 2},
    "one-node": {"launcher": "torchrun"},
    "container": {
        "launcher": "torchrun", "nodes": 2, "container_image": "nvcr.io/nvidia/pytorch:25.01-py3",
        "container_mounts": ("/fsx:/fsx:ro", "/scratch:/scratch"),
    },
    "container-horovodrun": {"launcher": "horovodrun", "nodes": 2, "container_image": "/home/ubuntu/it's mine.sqsh"},
    "channels": {
        "launcher": "torchrun", "nodes": 2, "container_image": "./image.sqsh",
        "channels": {"train": {"source": "/fsx/train"}, "val": {"source": "/home/ubuntu/val", "mode": "copy"}},
    },
    "shared-nodes": {"launcher": "srun", "gpus_per_node": 1, "exclusive": False, "nodes": 2},
    "unbound": {"launcher": "srun", "binding": "none"},
    "cpu-only": {"launcher": "srun", "partition": "ps", "ntasks_per_node": 4},
    "everything": {
        "launcher": "torchrun", "partition": "big", "nodes": 8, "efa": "required", "requeue": False, "name": "big-one",
        "signal": "USR1@120", "time": "1-12:00:00", "env": {"NCCL_DEBUG": "INFO", "ODD": "it's \"$HOME\"\nand more"},
        "secrets": ("WANDB_API_KEY",), "reservation": "mine", "sbatch_args": ("--nice",),
        "output": "logs/%x-%j.out",
    },
}  # fmt: skip


def request(folder: str = FOLDER, **flags) -> SbatchRequest:
    command = ("python", "train.py", "--epochs", "10", "a b")
    return SbatchRequest.from_spec(load(LAYOUT, flags={"command": command} | flags), LAYOUT, folder)


@pytest.mark.parametrize("name", JOBS)
def test_golden(name):
    got, golden = request(**JOBS[name]).materialize(), GOLDEN / f"{name}.sbatch"
    if os.environ.get("GOLDEN") == "rewrite":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(got)
    assert golden.is_file(), f"no {golden.relative_to(ROOT)}: GOLDEN=rewrite writes it"
    assert got == golden.read_text(), "the script changed; GOLDEN=rewrite, then review the difference"


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(JOBS)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("**/job-*.yaml")), ids=lambda path: path.stem)
def test_examples_fit_the_default_cluster(path):
    layout = expand(loads((ROOT / "cluster.yaml").read_text()))
    spec = load(layout, path)
    assert (spec.nodes, spec.gpus_per_node, spec.world_size) == (2, 2, 4)
    assert SbatchRequest.from_spec(spec, layout, FOLDER).materialize()


@pytest.mark.parametrize("name", JOBS)
def test_shellcheck(name, tmp_path):
    for path, text in request(**JOBS[name]).files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = shutil.which("shellcheck", path=f"{ROOT}/.venv/bin:{os.environ['PATH']}")
    assert found, "shellcheck is among the development dependencies"
    done = subprocess.run(
        # SC2016: what users wrote is quoted so that it does not expand
        [found, "--exclude=SC2016", "--external-sources", "--source-path=SCRIPTDIR", f"--source-path={ROOT}",
         "job.sbatch"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""


def test_jobs_ask_their_node_for_their_role():
    text = "name: A\nregion: eu-west-1\npartitions: [{name: a, instance_types: [g5.12xlarge], max_nodes: 1}]\n"
    asks = "export AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:9911/credentials\n"
    cache = "software: {cache: s3://bucket/x}\n"
    users = cache + "users: [{name: ada}]\n"
    for access, wanted in (('s3_access: [{uri: "s3://bucket/x"}]\n', True), (cache, True), (users, False), ("", False)):
        layout = expand(loads(text + access))
        spec = load(layout, flags={"command": ("a",), "env": {"AWS_REGION": "us-west-2"}})
        script = SbatchRequest.from_spec(spec, layout, FOLDER).materialize()
        assert (asks in script) == wanted
        # what the job says itself comes later
        assert ("AWS_REGION=eu-west-1" in script.partition("export AWS_REGION=us-west-2")[0]) == wanted


def test_horovod_does_not_end_a_job_whose_ranks_print():
    """Its own limit counts how long ranks wait for each other, whatever they print: CheckForStalledTensors in
    horovod/common/stall_inspector.cc."""
    text = request(launcher="horovodrun", hang_timeout="30:00").materialize()
    assert "export HOROVOD_STALL_CHECK_DISABLE=1\n" in text and "STALL_SHUTDOWN" not in text


def test_launchers_and_their_files_are_there():
    assert DEFAULT in LAUNCHERS
    forms = [*LAUNCHERS.values(), *VARIANTS.values()]
    used = {name.partition(":")[0] for launcher in forms for name in launcher.programs}
    used |= {"in-container.sh", "shard.sbatch"}
    assert used == {path.name for path in TEMPLATES.iterdir() if path.is_file()}


@pytest.mark.parametrize("launcher", [*LAUNCHERS.values(), *VARIANTS.values()], ids=lambda each: each.name)
def test_every_placeholder_of_a_launch_line_is_known(launcher, monkeypatch):
    """Each of its {NAMES}; and it has no `--`, behind which the command comes."""
    variables = {
        "GPUCLUSTER_NODES": "train-1 train-2", "RANKS_PER_NODE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20077", "SLURM_CPUS_ON_NODE": "9", "SLURM_JOB_ID": "77",
        "PATH": os.environ["PATH"], "PYTHONPATH": "/lib",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CONTAINER_IMAGE", raising=False)
    line = launcher.argv(LaunchRequest("/job", nodes=2, ranks_per_node=2, min_nodes=1, servers=2))
    words = launch.argv(line, ["python", "train.py"])
    left = [word for word in words if "{" in word]
    assert "--" not in line
    assert left == [launch.COMMAND] * line.count(launch.COMMAND)
    assert words[-2:] == ["python", "train.py"]


def test_two_folders_of_one_second_differ():
    spec = load(LAYOUT, flags={"command": ("a",), "name": "x"})
    assert folder_name(spec) != folder_name(spec)
