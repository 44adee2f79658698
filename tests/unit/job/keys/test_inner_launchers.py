"""A launcher inside a launcher: each rank would start a training that knows nothing of the others."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import load
from gpucluster.layout import expand
from gpucluster.submission.prepare import prepare

LAYOUT = expand(
    loads("name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)
SRUN = {"launcher": "srun", "ntasks_per_node": 1}


def _refusal(command: str, **keys: object) -> str:
    try:
        load(LAYOUT, None, {"command": tuple(shlex.split(command)), **keys})
    except JobSpecError as error:
        (notice,) = error.problems
        return f"{notice.message}; {notice.hint}"
    return ""


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("python -u -m torch.distributed.run --nproc_per_node=2 w.py", "torch.distributed.run"),
        ("python3.11 -Wignore -X dev -um torch.distributed.launch w.py", "torch.distributed.launch"),
        ("python -W ignore -mtorch.distributed.run w.py", "torch.distributed.run"),
        ("python /opt/venv/bin/torchrun w.py", "torchrun"),
        ("env -u B A=1 torchrun w.py", "torchrun"),
        ("env -S 'A=1 torchrun w.py'", "torchrun"),
        ("/usr/bin/env --chdir=src A=1 nohup nice -n 5 torchrun w.py", "torchrun"),
        ("timeout -k 5 1h stdbuf -oL torchrun w.py", "torchrun"),
        ("numactl --cpunodebind=0 taskset -c 0-3 torchrun w.py", "torchrun"),
        ("bash -c 'torchrun w.py'", "torchrun"),
        ("bash -lc 'set -e; cd src && A=1 exec torchrun w.py 2>&1 | tee log'", "torchrun"),
        ("bash -eu -o pipefail -c 'if true; then\n  # not here\n  torchrun \\\n w.py\nfi'", "torchrun"),
        ("bash -euo pipefail -c 'torchrun w.py'", "torchrun"),
        ("bash -c 'nohup bash -c \"accelerate launch w.py\" &'", "accelerate launch"),
        ("uv run --with rich torchrun w.py", "torchrun"),
        ("conda run -n env --no-capture-output python -m accelerate.commands.launch w.py", "accelerate launch"),
        ("poetry run deepspeed w.py", "deepspeed"),
        ("apptainer exec --nv image.sif torchrun w.py", "torchrun"),
        ("horovodrun -np 4 python w.py", "horovodrun"),
        ("mpirun -np 4 python w.py", "mpirun"),
        ("srun -n 4 python w.py", "srun"),
    ],
)
def test_every_way_to_write_it_is_seen(command: str, inner: str) -> None:
    assert f"starts {inner}, which starts ranks itself, and torchrun would start 4 of them on each" in _refusal(command)


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --launcher torchrun",
        "python -u train.py torchrun",
        "python -c 'import torch.distributed.run'",
        "python -m train -m torch.distributed.run",
        "env A=1 ./run.sh srun",
        "timeout 5m ./run.sh mpirun",
        "bash -c 'echo torchrun; python train.py # torchrun'",
        "bash -c 'python train.py --by \"torchrun\" | grep srun'",
        "bash run.sh torchrun",
        'bash -c "echo \'unfinished"',
        "accelerate env",
        "bash -c 'mpirun --version; echo rank $RANK'",
        "bash -c 'command -v torchrun && python train.py'",
        "command -V srun",
        "torchrun --help",
        "python -m accelerate.commands.env",
        "env",
        "nohup",
    ],
)
def test_other_commands_are_accepted(command: str) -> None:
    assert _refusal(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "torchrun train.py",
        "bash -c 'torchrun --standalone --nproc-per-node 4 train.py'",
        "torchrun --nnodes 1 --rdzv-endpoint host:29400 train.py",
        "torchrun --nnodes=4 train.py",
        "torchrun --nnodes=4 --rdzv-backend=c10d --rdzv_endpoint=localhost:29400 train.py",
        "torchrun train.py --nnodes=4 --master-addr=x",
        "bash -c 'torchrun --nproc-per-node $GPUS_PER_NODE train.py'",
        "accelerate launch train.py",
        "accelerate launch --num_machines 1 train.py",
        "deepspeed --hostfile hosts train.py",
        "mpirun -np 16 python train.py",
        "horovodrun -np 16 python train.py",
    ],
)
def test_one_launcher_on_each_node_must_join_the_others(command: str) -> None:
    said = _refusal(command, nodes=4, **SRUN)
    assert "separately on each of 4 nodes: 4 trainings that know nothing of each other" in said
    assert "write only the training program" in said
    assert _refusal(command, nodes=1, **SRUN) == ""


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint node-1:29400 train.py", {}),
        ("bash -c 'torchrun --nnodes $NUM_NODES --node-rank $NODE_RANK --master-addr $MASTER_ADDR train.py'", {}),
        ("torchrun train.py", {"env": {"PET_NNODES": "4", "PET_RDZV_ENDPOINT": "node-1:29400"}}),
        ("bash -c 'accelerate launch --num_machines $NUM_NODES --machine_rank $NODE_RANK train.py'", {}),
        ("bash -c 'export PET_NNODES=4 PET_MASTER_ADDR=$MASTER_ADDR; torchrun train.py'", {}),
        ("env PET_NNODES=4 PET_RDZV_ENDPOINT=node-1:29400 torchrun train.py", {}),
        ("bash -c 'torchrun $DISTRIBUTED_ARGS train.py'", {}),
        ("bash -c 'torchrun ${DISTRIBUTED_ARGS[@]} train.py'", {}),
        ("bash -c 'accelerate launch $ARGS train.py'", {}),
        ("bash -c '[ $NODE_RANK = 0 ] && mpirun -np 16 python train.py || sleep infinity'", {}),
        ("bash -c 'if [[ $SLURM_PROCID -eq 0 ]]; then horovodrun -np 16 -H $HOSTS python train.py; fi'", {}),
        ("accelerate launch --config_file four.yaml train.py", {}),
        ("bash -c 'deepspeed --no_ssh --node_rank $NODE_RANK --master_addr $MASTER_ADDR train.py'", {}),
    ],
)
def test_launchers_that_join_the_others_are_accepted(command: str, keys: dict[str, object]) -> None:
    """The options of torch.distributed.run, whose variables begin with PET_ (torch/distributed/argparse_util.py), of
    `accelerate launch`, and of DeepSpeed ("Launching without passwordless SSH" in its Getting Started)."""
    assert _refusal(command, nodes=4, **SRUN, **keys) == ""


def test_the_hint_never_makes_separate_trainings() -> None:
    assert "--launcher srun --ntasks-per-node 1 -- torchrun …" in _refusal("torchrun train.py")
    assert "-- python -m torch.distributed.run …" in _refusal("python -m torch.distributed.run train.py")
    said = _refusal("torchrun train.py", nodes=4)
    assert "--nnodes $NUM_NODES --node-rank $NODE_RANK --master-addr $MASTER_ADDR" in said
    assert "srun" not in _refusal("mpirun -np 16 python train.py", nodes=4)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("CUDA_VISIBLE_DEVICES=0 python train.py", "write --env CUDA_VISIBLE_DEVICES=0 before the command"),
        ("A=1 B='2 3' python train.py", "write --env A=1 --env 'B=2 3' before the command"),
        ("nohup A=1 python train.py", "nothing sets A=1: only a shell takes that for a variable"),
        ("cd src", "cd is a command of the shell, and no program; write bash -c 'cd …'"),
        ("source venv/bin/activate", "source is a command of the shell"),
        ("module load cuda", "module is a command of the shell"),
    ],
)
def test_what_only_a_shell_understands_is_refused(command: str, said: str) -> None:
    assert said in _refusal(command)


@pytest.mark.parametrize("command", ["bash run.sh", "./run.sh", "env A=1 nohup sh ./run.sh"])
def test_a_launcher_in_a_script_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """The script may have a way in which it does not run."""
    monkeypatch.chdir(tmp_path)
    text = "#!/usr/bin/env bash\n# torchrun, see the docs: it's easy\nif true; then\n  torchrun train.py\nfi\n"
    (tmp_path / "run.sh").write_text(text)
    job = prepare(LAYOUT, None, {"command": tuple(shlex.split(command))})
    (warning,) = job.checked()
    assert "run.sh starts torchrun, which starts ranks itself, and torchrun would start 4 of them" in warning
    assert prepare(LAYOUT, None, {"command": tuple(shlex.split(command)), **SRUN}).checked() == ()
    for harmless in ("#!/usr/bin/env bash\npython train.py\n", "#!/bin/bash\necho 'unfinished\ntorchrun train.py\n"):
        (tmp_path / "run.sh").write_text(harmless)
        assert job.checked() == ()
    (tmp_path / "run.sh").write_text("#!/bin/bash\ntorchrun ${DISTRIBUTED_ARGS[@]} train.py\n")
    assert prepare(LAYOUT, None, {"command": tuple(shlex.split(command)), "nodes": 4, **SRUN}).checked() == ()
    if command == "./run.sh":
        (tmp_path / "run.sh").write_text("#!/usr/bin/python3\ntorchrun\n")
        assert job.checked() == ()
