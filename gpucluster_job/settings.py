"""The job's settings from job.sbatch, and the paths of its files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


class GaveUp(Exception):
    """The job does not start its command, or fails for a reason of its own."""

    def __init__(self, reason: str, node: str = "") -> None:
        super().__init__(reason)
        self.reason, self.node = reason, node


@dataclass(frozen=True)
class Settings:
    folder: Path
    root: Path
    """The same; for an array's element, the folder of the array."""
    job_id: str
    shown_id: str
    """The same; for an array's element in squeue's form: 29_3."""
    launcher: str
    nodes: int
    gpus_per_node: int
    ranks_per_node: int
    server_nodes: int
    has_roles: bool
    preflight: str
    hang_timeout_s: int
    """0: the job may be silent for ever."""
    runs_before: int
    """How often Slurm has requeued the job."""

    @classmethod
    def read(cls) -> Settings:
        environ = os.environ
        folder, job_id = environ["GPUCLUSTER_JOB_DIR"], environ["SLURM_JOB_ID"]
        array = environ.get("SLURM_ARRAY_JOB_ID")
        return cls(
            folder=Path(folder),
            root=Path(environ.get("GPUCLUSTER_ARRAY_DIR") or folder),
            job_id=job_id,
            shown_id=f"{array}_{environ['SLURM_ARRAY_TASK_ID']}" if array else job_id,
            launcher=environ["GPUCLUSTER_LAUNCHER"],
            nodes=int(environ["NUM_NODES"]),
            gpus_per_node=int(environ["GPUS_PER_NODE"]),
            ranks_per_node=int(environ["RANKS_PER_NODE"]),
            server_nodes=int(environ.get("NUM_SERVER_NODES") or 0),
            has_roles="NUM_SERVERS" in environ,
            preflight=environ["GPUCLUSTER_PREFLIGHT"],
            hang_timeout_s=int(environ.get("GPUCLUSTER_HANG_TIMEOUT") or 0),
            runs_before=int(environ.get("SLURM_RESTART_COUNT") or 0),
        )

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    def everywhere(self, *options: str) -> list[str]:
        """Options of a step with one task on each node, beside the job's other steps."""
        nodes = [f"--nodes={self.nodes}", f"--ntasks={self.nodes}", "--ntasks-per-node=1", "--cpu-bind=none"]
        return ["srun", "--overlap", *nodes, "--input=none", *options]


def host_names(node_list: str) -> list[str]:
    """The names in Slurm's form: `train-[1-2]`."""
    asked = ["scontrol", "show", "hostnames", node_list]
    try:
        return subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    except OSError:
        return []


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
