"""Jobs of which tests kill a rank: all their processes must end, and the result must name that rank."""

from __future__ import annotations

from datetime import datetime

from bed import Bed, wait_for

from localcloud.testing.patience import stretched

LONGEST_END_S = 30
# Ranks print where they are, so that the test can kill one; a waiting process ends only because the job ends.
PROGRAM = """
import os, time
from pathlib import Path
os.environ.pop("DMLC_ROLE", None)
rank = os.environ.get("RANK")
if rank is not None:
    Path(os.environ["GPUCLUSTER_JOB_DIR"], "pid-" + rank).write_text(str(os.getpid()) + " " + os.uname().nodename)
    print("last words of", rank, flush=True)
time.sleep(3003)
"""
COMMAND = ("--", "python", "-c", PROGRAM)
LEFT = "[l]ast words of|[p]rted|[t]orchrun|[h]orovodrun|import [m]xnet"
"""Matches processes that no node may still run, and not the check itself."""


def lose_rank_1(bed: Bed, ranks: int, *options: str) -> None:
    """Options of a job with this number of ranks."""
    job = bed.submit(*options, *COMMAND)
    folder, job_id = job.last["folder"], job.last["job_id"]
    pids: dict[int, tuple[str, str]] = wait_for("all ranks", lambda: _ready(bed, folder, ranks), 300)
    pid, node = pids[1]
    kill = f"date -u +%Y-%m-%dT%H:%M:%SZ; sudo kill -KILL {pid}"
    killed_at = datetime.fromisoformat(bed.ssh("ssh", node, kill).strip())
    done = bed.gpucluster("logs", "-f", job_id)
    assert done.returncode == 4, done.stderr
    assert f"rank 1 on {node} exited with code 137: killed by SIGKILL, last line: last words of 1" in done.stderr
    ended_at = bed.ssh("grep", "-oP", '"ended_at": "\\K[^"]+', f"{folder}/result.json").strip()
    assert (datetime.fromisoformat(ended_at) - killed_at).total_seconds() <= stretched(LONGEST_END_S)
    nodes = bed.ssh("sacct", "-n", "-X", "-P", "-o", "NodeList", "-j", job_id)
    for name in bed.ssh("scontrol", "show", "hostnames", ",".join(nodes.split())).split():
        left = ("ssh", name, f"pgrep -af '{LEFT}' || true")
        wait_for(f"no process left on {name}", lambda left=left: not bed.ssh(*left).strip(), 30)


def _ready(bed: Bed, folder: str, ranks: int) -> dict[int, tuple[str, str]]:
    """Rank -> process id and node, once all ranks have printed them."""
    show = 'cd "$1" && for file in pid-*; do [ ! -s "$file" ] || echo "${file#pid-} $(cat "$file")"; done'
    lines = bed.ssh("sh", "-c", show, "sh", folder).splitlines()
    found = {int(rank): (pid, node.partition(".")[0]) for rank, pid, node in map(str.split, lines)}
    return found if len(found) == ranks else {}
