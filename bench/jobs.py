"""Our jobs against bare launchers on the same nodes, of a cluster that is up: local or on AWS.

`GPUCLUSTER_CONFIG=cluster.yaml python -m bench jobs --epochs 180 6500`: digits are trained under torchrun and mpirun,
once as `gpucluster submit` has it and once as a script of a few lines, in turn, for each number of epochs. Whole jobs
are compared, from the first line of the script to its end, and the epochs alone, as the program measures them.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from bench.figures import Figure

EPOCHS = (180, 6500)
"""Jobs of about thirty seconds and of about ten minutes, where every rank has a core: 14 s, and 0.09 s an epoch."""
WARMING_EPOCHS = 5
GOAL = 1.03
NODES, RANKS_PER_NODE = 2, 1
BARE = {
    "torchrun": """
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --ntasks-per-node=1 --cpu-bind=none torchrun --nnodes={nodes} --nproc-per-node={ranks} --rdzv-backend=c10d \\
  --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$head:29500" train_ddp.py --epochs {epochs}
""",
    "mpirun": "mpirun -np {all} --map-by ppr:{ranks}:node --bind-to none python train_horovod.py --epochs {epochs}\n",
}
PROGRAMS = {"torchrun": "train_ddp.py", "mpirun": "train_horovod.py"}
EPOCH = re.compile(r"epoch \d+/\d+: .*, ([\d.]+) s")


@dataclass(frozen=True)
class Times:
    whole_s: float
    epochs_s: float


def figures(runs: int, epochs: Sequence[int] = EPOCHS) -> list[Figure]:
    folders = {launcher: _submitted(launcher) for launcher in BARE}
    return [
        figure for each in epochs for launcher in BARE for figure in _figures(launcher, folders[launcher], each, runs)
    ]


def _figures(launcher: str, folder: str, epochs: int, runs: int) -> list[Figure]:
    ours, bare = list[Times](), list[Times]()
    for number in range(runs):
        ours.append(_ours(folder, f"{folder}-ours-{number}", epochs))
        bare.append(_bare(launcher, folder, f"{folder}-bare-{number}", epochs))
    return _compared(f"{launcher}, {epochs} epochs", ours, bare)


def _compared(job: str, ours: Sequence[Times], bare: Sequence[Times]) -> list[Figure]:
    def figure(name: str, one: Sequence[float], other: Sequence[float]) -> Figure:
        mine, floor = statistics.median(one), statistics.median(other)
        return Figure(f"{job}: {name}", "s", mine, floor, "bare launcher", GOAL, "3 % more")

    return [
        figure("whole job", [each.whole_s for each in ours], [each.whole_s for each in bare]),
        figure("its epochs", [each.epochs_s for each in ours], [each.epochs_s for each in bare]),
    ]


def _submitted(launcher: str) -> str:
    """The folder of a job as users submit it, on the cluster; its run boots the nodes and warms their caches."""
    argv = [
        "submit", "--launcher", launcher, "--nodes", str(NODES), "--ntasks-per-node", str(RANKS_PER_NODE),
        "--workdir", "examples/digits", "--follow", "--", "python", PROGRAMS[launcher], "--epochs", str(WARMING_EPOCHS),
    ]  # fmt: skip
    return str(json.loads(_gpucluster(*argv).splitlines()[-1])["folder"])


def _ours(original: str, folder: str, epochs: int) -> Times:
    """The same job, of so many epochs, in a copy of its folder, with a stamp before the first line."""
    name, copy = PurePosixPath(original).name, PurePosixPath(folder).name
    stamp = f"date +%s.%N >{folder}/begin; "
    longer = f"s#--epochs {WARMING_EPOCHS}$#--epochs {epochs}#"
    script = f"""
cp -r {original} {folder}; rm -f {folder}/result.json; : >{folder}/log.txt
sed -i -e 's#/jobs/{name}\\b#/jobs/{copy}#g' -e 's#^set -euo pipefail$#{stamp}&#' -e '{longer}' {folder}/job.sbatch
sbatch --wait {folder}/job.sbatch >/dev/null
stat --format=%.9Y {folder}/result.json >{folder}/end
"""
    return _times(_on_head(script + _report(folder)), epochs)


def _bare(launcher: str, original: str, folder: str, epochs: int) -> Times:
    """A hand-written script for the same environment, code and nodes."""
    every = {"nodes": NODES, "ranks": RANKS_PER_NODE, "all": NODES * RANKS_PER_NODE, "epochs": epochs}
    text = f"""#!/usr/bin/env bash
#SBATCH --chdir={folder}/code --output={folder}/log.txt
$(grep '^#SBATCH --\\(partition\\|nodes\\|gres\\|exclusive\\|mem\\)' {original}/job.sbatch)
#SBATCH --ntasks-per-node={1 if launcher == "torchrun" else RANKS_PER_NODE}
set -euo pipefail
date +%s.%N >{folder}/begin
$(grep '^PATH=' {original}/job.sbatch)
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
"""
    rest = BARE[launcher].format(**every) + f"date +%s.%N >{folder}/end\n"
    script = f"mkdir -p {folder}; cp -r {original}/code {folder}/\n"
    script += f"cat >{folder}/job.sbatch <<END\n{text}END\nprintf %s {shlex.quote(rest)} >>{folder}/job.sbatch\n"
    return _times(_on_head(f"{script}sbatch --wait {folder}/job.sbatch >/dev/null\n" + _report(folder)), epochs)


def _report(folder: str) -> str:
    return f"cat {folder}/begin {folder}/end {folder}/log.txt; rm -rf {folder}\n"


def _times(text: str, epochs: int) -> Times:
    begin, end, *log = text.splitlines()
    took_s = [float(match[1]) for match in map(EPOCH.search, log) if match]
    if len(took_s) != epochs:
        raise RuntimeError(f"{len(took_s)} epochs in the log, expected {epochs}:\n" + "\n".join(log[-20:]))
    return Times(float(end) - float(begin), sum(took_s))


def _on_head(script: str) -> str:
    return _gpucluster("ssh", "--", "bash", "-c", f"set -e\n{script}")


def _gpucluster(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "gpucluster.cli", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"gpucluster {words[0]}: exit code {done.returncode}\n{done.stderr}{done.stdout[-3000:]}")
    return done.stdout
