"""`why` of jobs of real ranks with torch and gloo on two booted nodes: one rank does not come, one dies first."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from bed import Bed, Submitted

PROGRAM = """
    import datetime, os, time
    import torch, torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
    rank, loss = dist.get_rank(), torch.ones(4)

    def load():
        time.sleep(600)

    def record():
        taken = c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=False, onlyActive=False)
        with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank), "wb") as file:
            file.write(taken)

    for step in range(3):
        dist.all_reduce(loss)
    if rank == 3 and os.environ["FAULT"] == "dies":
        raise ValueError("no data")
    if rank == 3:
        record()
        load()
    try:
        dist.all_reduce(loss)
    except RuntimeError:
        record()
        raise
"""


def run(cluster: Bed, folder: Path, fault: str) -> tuple[Submitted, dict[str, Any]]:
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    size = ("--nodes", "2", "--gpus-per-node", "2", "--launcher", "torchrun", "--preflight", "off")
    workdir = ("--workdir", str(folder), "--env", f"FAULT={fault}")
    job = cluster.submit(*size, *workdir, "--follow", "--", "python", "train.py")
    said = cluster.gpucluster("why", "--json", str(job.last["job_id"]))
    assert said.returncode == 0, said.stderr
    return job, json.loads(said.stdout)


def test_the_rank_that_did_not_come_is_named(cluster: Bed, tmp_path: Path) -> None:
    job, why = run(cluster, tmp_path, "hangs")
    assert job.exit_code == 4, job.told
    assert (job.result["missing_ranks"], job.result["failed_rank"]) == ([3], None)
    first, *_ = job.result["reason"].split("; ")
    assert first == "rank 3 did not come to all_reduce number 4, in which ranks 0, 1, 2 waited"
    assert "rank 3 in load (train.py:" in job.result["reason"]
    assert (why["state"], why["causes"]) == ("hung", ["rank-missing"])


def test_the_rank_that_died_first_is_named(cluster: Bed, tmp_path: Path) -> None:
    """The others report it: gloo's connections to it are closed."""
    job, why = run(cluster, tmp_path, "dies")
    assert job.exit_code == 4, job.told
    assert (job.result["failed_rank"], job.result["reason"]) == (3, "ValueError: no data")
    assert (why["state"], why["causes"]) == ("dead", [])
    assert any("ValueError: no data" in line for line in why["explanation"])
