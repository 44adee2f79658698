"""What the preflight measures on booted nodes: pairs of three nodes, and NCCL's own report."""

from __future__ import annotations

from collections import Counter

from bed import Bed
from test_preflight_cluster import JOB, nodes, submit, succeeded

SUBJECTS = [
    "bootstrap/environments/torch*.txt",
    "gpucluster_job/job.py",
    "gpucluster_job/network.py",
    "gpucluster_job/preflight/*",
    "gpucluster_job/ranks/identity.py",
]
COVERED_BY = (
    "test_preflight_cluster.py: a full preflight of two nodes, booted; test_preflight.py, test_slow_nodes.py: pairs; "
    "test_preflight_scripts.py: NCCL's report"
)
__all__ = ["nodes"]


def test_pairs_of_three_nodes_are_measured(cluster: Bed, nodes: list[str]) -> None:
    """After a real all-reduce of all of them."""
    three = ("--nodes", "3", "--launcher", "torchrun", "--preflight", "full")
    job = cluster.submit(*JOB, *three, "--", "echo", "started", timeout_s=400)
    pairs = succeeded(job, 3)["measured"]["framework"]["pairs"]
    assert Counter(node for first, second, _ in pairs for node in (first, second)) == dict.fromkeys(
        job.result["node_list"], 2
    )
    assert all(gb_per_s > 0 for *_, gb_per_s in pairs)


def test_nccls_report_is_in_the_result(cluster: Bed, nodes: list[str]) -> None:
    report = 'echo "h:1:2 [0] NCCL INFO Using network Socket" >${NCCL_DEBUG_FILE/\\%p/$$}'
    job = submit(cluster, nodes, "--launcher", "srun", "--", "bash", "-c", report)
    assert job.exit_code == 0, job.told
    assert job.result["nccl"]["networks"] == {"Socket": 2}
    assert any("warning: NCCL's network is Socket on 2 ranks" in line for line in job.log)
